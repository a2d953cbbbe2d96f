/**
 * Reads, watches and validates the ConfigMap and its overlay (the operator's own object for configuration that hooks write), and lets hooks write
 * to them (docs/reference/values.md, "The ConfigMap"). Content in force is what the operator works with.
 */

import { readOwner } from "../../helm/index.ts";
import { isAlreadyExists, isForbidden, type Subscription } from "../../kube/index.ts";
import { oneLine, Throttle, type Clock } from "../../base/index.ts";
import { describeOverlay, describeProblem, type Problem } from "../../base/model/index.ts";
import { configIsMissing, explainInvalid, type State } from "../../engine/state/index.ts";
import type { PatchOperation } from "../../values/index.ts";
import { ConfigObjects } from "./config-objects.ts";
import type { AcceptedConfig, ConfigLocation, ConfigObject } from "./config-objects.ts";
import { ConfigWriter } from "./config-writer.ts";
import { moveOverlay, OverlayRestorer } from "./overlay.ts";
import type { TriggerReport } from "../report.ts";

interface WatchedConfigOptions extends ConfigLocation {
  readonly state: State;
  readonly clock: Clock;
  /** Name of the ConfigMap. */
  readonly name: string;
  /** Storage of the accepted content over restarts. Only the leader has `save`. */
  readonly accepted?: (Pick<AcceptedConfig, "read"> & Partial<Pick<AcceptedConfig, "save">>) | undefined;
  readonly report: Pick<TriggerReport, "configUnusable" | "ownWatchChanged">;
}

/** Edits within this time are handled together: helm and GitOps tools write ConfigMap and overlay in quick succession. */
const THROTTLE_MS = 10;

/** What counts as the ConfigMap while the operator cannot create it. */
const NOT_CREATED: ConfigObject = { resourceVersion: "" };

/**
 * Watches the ConfigMap with the operator's configuration, and writes hooks' patches to it. Records valid content; while the
 * content is invalid, the whole last valid content stays in force.
 */
export class WatchedConfig {
  readonly #options: WatchedConfigOptions;
  readonly #objects: ConfigObjects;
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
  /** A ConfigMap existed before: then it is a problem if it is missing. */
  #isConfigExpected = false;
  #lastWarnings: ReadonlySet<string> = new Set();

  constructor(options: WatchedConfigOptions) {
    this.#options = options;
    this.#objects = new ConfigObjects(options);
    this.#throttle = new Throttle(options.clock, THROTTLE_MS, () => this.#validateUnlessWriting());
    this.#writer = new ConfigWriter({
      ...options,
      objects: this.#objects,
      isToBeCreated: () => this.#isToBeCreated,
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
    this.#reportInvalid(state.view.config.problems);
    return isApplied;
  }

  /** There is no ConfigMap because the operator could not create it: an empty one counts, until a hook writes to it or a user creates it. */
  get #isToBeCreated(): boolean {
    return this.#validatedConfig === NOT_CREATED;
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

  /** Creates an empty ConfigMap at a first start, unless it exists by now. Without the right to create it, continues as if there were an empty one; the first write of a hook creates it. */
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
      this.#validatedConfig = NOT_CREATED;
      this.validateAgain();
    }
  }

  /** Records and reports that the ConfigMap is missing at a start although releases of this operator exist. */
  reportMissingAtStart(): void {
    this.#isConfigExpected = true;
    this.#recordMissing("releases of this operator exist, so nothing runs until the ConfigMap is back");
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
        serialize: this.#writer.serialize,
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
    if (this.#validatedConfig !== undefined) this.#applyContent();
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
    const latest = this.#objects.getLatest(name);
    if (latest !== undefined || !this.#isToBeCreated) this.#validatedConfig = latest;
    if (overlay !== undefined) this.#validatedOverlay = this.#objects.getLastKnown(overlay.name);
    state.beginEvent("edit", { configMap: name });
    this.#applyContent();
  }

  /**
   * Validates the ConfigMap together with its overlay, puts them in force if they are valid, and records the result; undefined = there is no
   * ConfigMap. Reports an invalid version once: the same version is validated again after changes of modules and their schemas.
   */
  #applyContent(): void {
    const [object, overlayObject] = [this.#validatedConfig, this.#validatedOverlay];
    if (object === undefined)
      return this.#recordMissing("the last good content stays in force, and nothing is deleted");
    this.#isConfigExpected = true;
    const { state, name, overlay, accepted } = this.#options;
    const overlayContent = overlay && { file: describeOverlay(overlay), data: overlayObject?.data };
    const { data, resourceVersion } = object;
    const { condition: lastCondition, resourceVersion: lastVersion } = state.view.config;
    const result = state.inputs.applyConfig({ name, data, overlay: overlayContent }, resourceVersion);
    const warnings = [...result.warnings, ...warnOfBinaryKeys(name, object)];
    if (result.problems.length === 0)
      return this.#handleValid({ ...result, warnings }, data, overlayObject?.data);
    const isReported = lastCondition === "invalid" && lastVersion === resourceVersion;
    // At a start no content is in force yet. Then `applyAcceptedContent` decides what is in force and reports it.
    const mayUseAccepted = !state.view.config.isInForce && accepted !== undefined;
    if (!isReported && !mayUseAccepted) this.#reportInvalid(result.problems);
  }

  /** Reports why the ConfigMap is invalid, and which content is in force. */
  #reportInvalid(problems: readonly Problem[]): void {
    const { state, report } = this.#options;
    const sentences = [...problems.map(describeProblem), explainInvalid(state.view)];
    report.configUnusable("ConfigMapInvalid", sentences.join("; "));
  }

  /** Records and reports that the ConfigMap is missing although it existed before, once until it is back. */
  #recordMissing(consequence: string): void {
    const { state, name, report } = this.#options;
    const isReported = configIsMissing(state.view);
    if (!this.#isConfigExpected || isReported) return;
    const message = `does not exist; ${consequence}`;
    const problem = { file: `ConfigMap ${name}`, message, remedy: "create it again" };
    report.configUnusable("ConfigMapMissing", describeProblem(problem));
    state.inputs.recordConfig(
      { condition: "missing", problems: [problem], resourceVersion: undefined },
      { kind: "config" },
    );
  }

  /**
   * Stores valid content for later starts, if this operator is the leader (only then is there a `save`). Logs what has changed, and
   * warnings that are new.
   */
  #handleValid(
    { unknownKeys, warnings, changed }: ReturnType<State["inputs"]["applyConfig"]>,
    data: ConfigObject["data"] = {},
    overlay?: ConfigObject["data"],
  ): void {
    const { logger, accepted } = this.#options;
    accepted?.save?.({ data, overlay });
    if (unknownKeys.length > 0) logger.warn("ConfigMap keys match no module", { keys: unknownKeys });
    for (const text of warnings) if (!this.#lastWarnings.has(text)) logger.warn(text);
    this.#lastWarnings = new Set(warnings);
    if (changed.length > 0) logger.info("ConfigMap changed", { keys: changed });
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

/** Warns of keys that a client has put into `binaryData`, as `kubectl create configmap --from-file` does with a file that is not UTF-8. */
function warnOfBinaryKeys(configMap: string, { binaryKeys = [] }: ConfigObject): string[] {
  const message = "is in binaryData, which the operator does not read";
  const remedy = "write it to data as UTF-8 text";
  return binaryKeys.map((key) => describeProblem({ file: `ConfigMap ${configMap}`, key, message, remedy }));
}
