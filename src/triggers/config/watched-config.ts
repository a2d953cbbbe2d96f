/**
 * Reads, watches and validates the ConfigMap and its overlay (the operator's own object for configuration that hooks write), and lets hooks write
 * to them (docs/reference/values.md, "The ConfigMap"). Content in force is what the operator works with.
 */

import { readOwner } from "../../helm/index.ts";
import { isAlreadyExists, isForbidden, type Subscription } from "../../kube/index.ts";
import { oneLine, type Clock, type Timer } from "../../lib/index.ts";
import { describeOverlay } from "../../model/index.ts";
import type { PatchOperation } from "../../values/index.ts";
import { ConfigValidator, type ConfigValidatorOptions, type AcceptedConfig } from "./config-validator.ts";
import { ConfigObjects, type ConfigLocation, type ConfigObject } from "./config-objects.ts";
import { ConfigWriter } from "./config-writer.ts";
import { moveOverlay, OverlayRestorer } from "./overlay.ts";

interface WatchedConfigOptions extends ConfigLocation, ConfigValidatorOptions {
  readonly clock: Clock;
  readonly overlay: ConfigLocation["overlay"];
  /** Storage of the accepted content over restarts. Only the leader has `save`. */
  readonly accepted?: (Pick<AcceptedConfig, "read"> & Partial<Pick<AcceptedConfig, "save">>) | undefined;
}

/** Edits within this time are handled together: helm and GitOps tools write ConfigMap and overlay in quick succession. */
const THROTTLE_MS = 10;

/**
 * Watches the ConfigMap with the operator's configuration, and writes hooks' patches to it. Records valid content; while the
 * content is invalid, the whole last valid content stays in force.
 */
export class WatchedConfig {
  readonly #options: WatchedConfigOptions;
  readonly #objects: ConfigObjects;
  readonly #validator: ConfigValidator;
  readonly #writer: ConfigWriter;
  readonly #throttle: Throttle;
  readonly #subscriptions: Subscription[] = [];
  /** The version that was validated last. */
  #validatedConfig: ConfigObject | undefined;
  /** The overlay that was validated last; a deleted overlay counts until it is written again. */
  #validatedOverlay: ConfigObject | undefined;
  /** The watch reported a change while a hook's write was under way. */
  #hasUnhandledChange = false;
  #restorer: OverlayRestorer | undefined;

  constructor(options: WatchedConfigOptions) {
    this.#options = options;
    this.#objects = new ConfigObjects(options);
    this.#validator = new ConfigValidator(options);
    this.#throttle = new Throttle(options.clock, THROTTLE_MS, () => this.#validateUnlessWriting());
    this.#writer = new ConfigWriter({
      ...options,
      objects: this.#objects,
      // A user's edit must not count as a change by the hook that writes now.
      handleUnseenEdits: () => {
        if (this.#hasNewVersion()) this.#validate();
      },
      // Changes that the watch delivers during a write are handled at its end.
      onWriteEnd: () => {
        if (this.#hasUnhandledChange) this.#validate();
        else this.#throttle.trigger();
      },
    });
  }

  /**
   * Reads ConfigMap and overlay from the server and records their content. False when the ConfigMap is missing, which is
   * recorded as a problem only if it existed before.
   */
  refresh(): Promise<boolean> {
    const { name, overlay } = this.#options;
    // After pending writes: the writer itself records patches of hooks.
    return this.#writer.serialize(async () => {
      await this.#objects.read(name);
      if (overlay !== undefined) await this.#objects.read(overlay.name);
      this.#validateUnlessWriting();
      return this.#objects.getLatest(name) !== undefined;
    });
  }

  /**
   * When the ConfigMap is invalid at a start: puts the stored content in force that was accepted last, and reports the ConfigMap as
   * invalid. Returns false if no content is stored, or if it is not valid now. Throws as `AcceptedConfig.read`.
   */
  async applyAcceptedContent(): Promise<boolean> {
    const { state, accepted, name, overlay, logger } = this.#options;
    if (accepted === undefined) return false;
    const { data, overlay: overlayData } = (await accepted.read()) ?? {};
    const overlayContent = overlay && { file: describeOverlay(overlay), data: overlayData };
    const isApplied =
      data !== undefined && state.inputs.applyAcceptedConfig({ name, data, overlay: overlayContent });
    if (isApplied) logger.warn("The ConfigMap is invalid; starting with the content that was accepted last");
    this.#validator.reportInvalid(state.view.config.problems);
    return isApplied;
  }

  /** Name of the ConfigMap. */
  get name(): string {
    return this.#options.name;
  }

  /** The helm release that created the ConfigMap: the one that installed this operator. No module may use a release of this name. */
  get ownerRelease(): string | undefined {
    const { name, namespace } = this.#options;
    const owner = readOwner(this.#objects.getLatest(name)?.annotations ?? {}, namespace);
    return owner?.namespace === namespace ? owner.release : undefined;
  }

  /** Moves the content of a former overlay ConfigMap; call it before the first `refresh`. See {@link moveOverlay}. */
  async moveOverlay(): Promise<void> {
    const { overlay } = this.#options;
    if (overlay !== undefined) await moveOverlay(this.#options, overlay);
  }

  /** Creates an empty ConfigMap at a first start, unless it exists by now. Without the right to create it, continues as if there were an empty one. */
  async createEmpty(): Promise<void> {
    const { logger, name } = this.#options;
    try {
      await this.#objects.create(name);
      this.#validateUnlessWriting();
      logger.info("Created an empty ConfigMap");
    } catch (error) {
      if (isAlreadyExists(error)) return void (await this.refresh());
      if (!isForbidden(error)) throw error;
      logger.warn("The empty ConfigMap cannot be created", { configMap: name, error: oneLine(error) });
      this.#validatedConfig = { resourceVersion: "" };
      this.validateAgain();
    }
  }

  /** Records and reports that the ConfigMap is missing at a start although releases of this operator exist. */
  reportMissingAtStart(): void {
    this.#validator.reportMissingAtStart();
  }

  /** Watches the ConfigMap and the overlay; resolves after the first list of both. */
  async watch(): Promise<void> {
    const { name, overlay } = this.#options;
    this.#subscriptions.push(this.#objects.watch(name, () => this.#throttle.trigger()));
    if (overlay !== undefined) {
      const restorer = new OverlayRestorer({
        ...this.#options,
        overlay,
        objects: this.#objects,
        serialize: (work) => this.#writer.serialize(work),
      });
      const onOverlayChange = (): void => {
        this.#throttle.trigger();
        restorer.restoreIfMissing();
      };
      this.#restorer = restorer;
      this.#subscriptions.push(this.#objects.watch(overlay.name, onOverlayChange));
    }
    await Promise.all(this.#subscriptions.map((subscription) => subscription.whenSynced));
  }

  /** Validates the last content again, after the modules or their schemas have changed. */
  validateAgain(): void {
    if (this.#validatedConfig !== undefined)
      this.#validator.validate(this.#validatedConfig, this.#validatedOverlay);
  }

  close(): void {
    this.#throttle.close();
    this.#restorer?.close();
    for (const subscription of this.#subscriptions) subscription.close();
  }

  /**
   * Applies a hook's patch to exactly one key of the newest content and saves it. Throws if it cannot be saved: the
   * ConfigMap is missing, its key does not parse, it grows too large, or the server refuses.
   */
  write(key: string, operations: readonly PatchOperation[]): Promise<void> {
    return this.#writer.write(key, operations);
  }

  /** Validates the newest content. While a hook's write is under way, its end validates: the change may be the hook's own. */
  #validateUnlessWriting(): void {
    if (this.#writer.isWriting) this.#hasUnhandledChange = true;
    else this.#validate();
  }

  /**
   * Validates ConfigMap and overlay, and records the result as a reaction to an edit. Without its ConfigMap the operator waits;
   * a deleted overlay stays in force, because values of hooks would be lost with it.
   */
  #validate(): void {
    const { state, name, overlay } = this.#options;
    this.#hasUnhandledChange = false;
    this.#validatedConfig = this.#objects.getLatest(name);
    if (overlay !== undefined) this.#validatedOverlay = this.#objects.getLastKnown(overlay.name);
    state.beginEvent("edit", { configMap: name });
    this.#validator.validate(this.#validatedConfig, this.#validatedOverlay);
  }

  /** Whether either object has another version than the one that was validated last. */
  #hasNewVersion(): boolean {
    const { name, overlay } = this.#options;
    const overlayNow = overlay && this.#objects.getLastKnown(overlay.name);
    return (
      this.#objects.getLatest(name)?.resourceVersion !== this.#validatedConfig?.resourceVersion ||
      overlayNow?.resourceVersion !== this.#validatedOverlay?.resourceVersion
    );
  }
}

/** Acts on the first trigger at once, and once on all that follow within `ms` (throttle with trailing edge). */
class Throttle {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #act: () => void;
  #timer: Timer | undefined;
  #hasPendingTrigger = false;

  constructor(clock: Clock, ms: number, act: () => void) {
    this.#clock = clock;
    this.#ms = ms;
    this.#act = act;
  }

  /** Requests a call of `act`, which is always asynchronous: `trigger` returns before. */
  trigger(): void {
    if (this.#timer !== undefined) {
      this.#hasPendingTrigger = true;
      return;
    }
    queueMicrotask(this.#act);
    this.#timer = this.#clock.setTimer(this.#ms, () => this.#onElapsed());
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** The interval is over: calls `act` for the triggers within it. */
  #onElapsed(): void {
    this.#timer = undefined;
    const hasNewTrigger = this.#hasPendingTrigger;
    this.#hasPendingTrigger = false;
    if (hasNewTrigger) this.trigger();
  }
}
