/** The ConfigMap and its overlay: read, watched, judged, written by hooks (docs/VALUES.md, "The ConfigMap"). */

import { ownerOf } from "../../helm/index.ts";
import { isAlreadyExists, isForbidden, type Subscription } from "../../kube/index.ts";
import { oneLine, type Clock, type Timer } from "../../lib/index.ts";
import { describeOverlay, describeProblem, type Problem } from "../../model/index.ts";
import { configIsMissing, explainInvalid } from "../../state/index.ts";
import type { State } from "../../state/index.ts";
import { happened } from "../../trace/index.ts";
import type { PatchOperation } from "../../values/index.ts";
import type { AcceptedConfig } from "./accepted-config.ts";
import { ConfigObjects, type ConfigLocation, type ConfigObject } from "./config-objects.ts";
import { ConfigWriter } from "./config-writer.ts";
import { moveOverlay, OverlayRestorer } from "./overlay.ts";

/** Where the ConfigMap is, and what is called on changes. */
interface FollowedConfigOptions extends ConfigLocation {
  readonly state: State;
  readonly clock: Clock;
  readonly name: string;
  /** Where content that was accepted is kept over restarts: it is read, and by the operator that leads written. */
  readonly accepted?: (Pick<AcceptedConfig, "read"> & Partial<Pick<AcceptedConfig, "keep">>) | undefined;
  /** Called when new content was refused, or the ConfigMap is gone. */
  readonly onTrouble: (reason: "ConfigMapInvalid" | "ConfigMapMissing", message: string) => void;
}

/** Edits within this time are taken together. */
const THROTTLE_MS = 10;

/**
 * The ConfigMap as the source of configuration and as the place where hooks write. Content that is valid is
 * recorded; otherwise the whole last good content stays in force.
 */
export class FollowedConfig {
  readonly #options: FollowedConfigOptions;
  readonly #objects: ConfigObjects;
  readonly #judge: ConfigJudge;
  readonly #writer: ConfigWriter;
  readonly #throttle: Throttle;
  readonly #subscriptions: Subscription[] = [];
  /** What was judged last. */
  #judged: ConfigObject | undefined;
  /** The overlay as judged last; one that was deleted counts until it is written again. */
  #overlay: ConfigObject | undefined;
  /** A notice came while a hook's write was under way. */
  #isOwed = false;
  #restorer: OverlayRestorer | undefined;

  constructor(options: FollowedConfigOptions) {
    this.#options = options;
    this.#objects = new ConfigObjects(options);
    this.#judge = new ConfigJudge(options);
    this.#throttle = new Throttle(options.clock, THROTTLE_MS, () => this.#take());
    this.#writer = new ConfigWriter({
      ...options,
      objects: this.#objects,
      seen: () => this.#isNews() && this.#look(),
      ended: () => (this.#isOwed ? this.#look() : this.#throttle.touch()),
    });
  }

  /**
   * Reads both ConfigMaps anew and records what they say; false when the ConfigMap is missing, which is recorded
   * only when there was one before.
   */
  refresh(): Promise<boolean> {
    const { name, overlay } = this.#options;
    // In turn: what a hook is writing is recorded by the writer, not by what is read meanwhile.
    return this.#writer.inTurn(async () => {
      await this.#objects.read(name);
      if (overlay !== undefined) await this.#objects.read(overlay.name);
      this.#take();
      return this.#objects.latest(name) !== undefined;
    });
  }

  /**
   * Takes the content into force that was accepted last; the ConfigMap is still reported as invalid. False where none is
   * kept, or none that is valid now. Throws as `AcceptedConfig.read`.
   */
  async useAccepted(): Promise<boolean> {
    const { state, name, overlay, accepted, logger } = this.#options;
    const kept = await accepted?.read();
    if (kept === undefined) return false;
    const over = overlay && { file: describeOverlay(overlay), data: kept.overlay };
    if (!state.takeAccepted({ name, data: kept.data, overlay: over })) return false;
    logger.warn("The ConfigMap is invalid; starting with the content that was accepted last");
    return true;
  }

  get name(): string {
    return this.#options.name;
  }

  /** The release that made the ConfigMap: the operator's own. */
  get release(): string | undefined {
    const { name, namespace } = this.#options;
    const owner = ownerOf(this.#objects.latest(name)?.metadata.annotations ?? {}, namespace);
    return owner?.namespace === namespace ? owner.release : undefined;
  }

  /**
   * Takes over the content of a former overlay ConfigMap; call it before the first `refresh`. See {@link
   * moveOverlay}.
   */
  async moveOverlay(): Promise<void> {
    const { overlay } = this.#options;
    if (overlay !== undefined) await moveOverlay(this.#options, overlay);
  }

  /**
   * Creates an empty ConfigMap at a first start, unless somebody has been faster; without the right to do so, goes
   * on as if it were there.
   */
  async createEmpty(): Promise<void> {
    const { logger, name } = this.#options;
    try {
      await this.#objects.create(name);
      this.#take();
      logger.info("Created an empty ConfigMap");
    } catch (error) {
      if (isAlreadyExists(error)) return void (await this.refresh());
      if (!isForbidden(error)) throw error;
      logger.warn("The empty ConfigMap cannot be created", { configMap: name, error: oneLine(error) });
      this.#judged = { metadata: { resourceVersion: "" } };
      this.judgeAgain();
    }
  }

  /** Records that the ConfigMap is missing although releases of this operator exist. */
  missingAtStart(): void {
    this.#judge.missingAtStart();
  }

  /** Watches both ConfigMaps; resolves when both were seen once. */
  async watch(): Promise<void> {
    const { name, overlay } = this.#options;
    this.#subscriptions.push(this.#objects.follow(name, () => this.#throttle.touch()));
    if (overlay !== undefined) {
      const restorer = new OverlayRestorer({
        ...this.#options,
        overlay,
        objects: this.#objects,
        inTurn: (work) => this.#writer.inTurn(work),
      });
      const changed = (): void => {
        this.#throttle.touch();
        restorer.look();
      };
      this.#restorer = restorer;
      this.#subscriptions.push(this.#objects.follow(overlay.name, changed));
    }
    await Promise.all(this.#subscriptions.map((subscription) => subscription.synced));
  }

  /** Judges the last content once more, since the modules that its keys belong to have changed. */
  judgeAgain(): void {
    if (this.#judged !== undefined) this.#judge.take(this.#judged, this.#overlay);
  }

  close(): void {
    this.#throttle.close();
    this.#restorer?.close();
    for (const subscription of this.#subscriptions) subscription.close();
  }

  /**
   * Applies a hook's patch to exactly one key, over fresh content, and takes it into force. Throws when it could not
   * be saved: the ConfigMap is missing, its key does not parse, it grows too large, or the server refuses.
   */
  write(key: string, operations: readonly PatchOperation[]): Promise<void> {
    return this.#writer.write(key, operations);
  }

  /**
   * Takes over what is known now. While a hook's write is under way, this waits: nobody can say whose change it is.
   */
  #take(): void {
    if (this.#writer.isWriting) this.#isOwed = true;
    else this.#look();
  }

  #look(): void {
    const { name, overlay } = this.#options;
    this.#isOwed = false;
    this.#judged = this.#objects.latest(name);
    if (overlay !== undefined) this.#overlay = this.#objects.last(overlay.name);
    happened("edit", { configMap: name }, () => this.#judge.take(this.#judged, this.#overlay));
  }

  #isNews(): boolean {
    const { name, overlay } = this.#options;
    const over = overlay && this.#objects.last(overlay.name);
    return isOther(this.#objects.latest(name), this.#judged) || isOther(over, this.#overlay);
  }
}

function isOther(a: ConfigObject | undefined, b: ConfigObject | undefined): boolean {
  return a?.metadata.resourceVersion !== b?.metadata.resourceVersion;
}

/** Takes the first notice at once, and those that follow within `ms` together. */
class Throttle {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #take: () => void;
  #timer: Timer | undefined;
  #waiting = false;

  constructor(clock: Clock, ms: number, take: () => void) {
    this.#clock = clock;
    this.#ms = ms;
    this.#take = take;
  }

  /** There is something to take; never calls back before it has returned. */
  touch(): void {
    if (this.#timer !== undefined) {
      this.#waiting = true;
      return;
    }
    queueMicrotask(this.#take);
    this.#timer = this.#clock.setTimer(this.#ms, () => this.#over());
  }

  close(): void {
    this.#timer?.cancel();
  }

  #over(): void {
    this.#timer = undefined;
    const more = this.#waiting;
    this.#waiting = false;
    if (more) this.touch();
  }
}

/** Decides what comes into force: valid content whole, else the whole last good content stays. */
class ConfigJudge {
  readonly #options: FollowedConfigOptions;
  /** Whether the ConfigMap must exist: at a first start there is none yet, which is no problem. */
  #isOwed = false;
  /** Warnings of the last content. */
  #warned: ReadonlySet<string> = new Set();

  constructor(options: FollowedConfigOptions) {
    this.#options = options;
  }

  /** Judges what was read last and records it; undefined = there is no ConfigMap. */
  take(object: ConfigObject | undefined, overlayObject: ConfigObject | undefined): void {
    if (object === undefined) {
      if (this.#isOwed) this.#gone("the last good content stays in force, and nothing is deleted");
      return;
    }
    this.#isOwed = true;
    const { state, name, overlay } = this.#options;
    const over = overlay && { file: describeOverlay(overlay), data: overlayObject?.data };
    const { resourceVersion } = object.metadata;
    const before = state.view.config;
    const news = state.takeConfig({ name, data: object.data, overlay: over }, resourceVersion);
    if (news.problems.length === 0) {
      this.#keep(object.data, overlayObject?.data);
      return this.#tell(news);
    }
    const isKnown = before.condition === "invalid" && before.resourceVersion === resourceVersion;
    if (!isKnown) this.#refused(news.problems);
  }

  #keep(data: ConfigObject["data"] = {}, overlay: ConfigObject["data"]): void {
    this.#options.accepted?.keep?.({ data, overlay });
  }

  #refused(problems: readonly Problem[]): void {
    const { state, onTrouble } = this.#options;
    const told = [...problems.map(describeProblem), explainInvalid(state.view)];
    onTrouble("ConfigMapInvalid", told.join("; "));
  }

  /** There is no ConfigMap at a start, and there should be one: releases of this operator exist. */
  missingAtStart(): void {
    this.#isOwed = true;
    this.#gone("releases of ours exist, so nothing runs until it is back");
  }

  #gone(consequence: string): void {
    const { state, name, onTrouble } = this.#options;
    if (configIsMissing(state.view)) return;
    const message = `does not exist; ${consequence}`;
    const problem = { file: `ConfigMap ${name}`, message, remedy: "create it again" };
    onTrouble("ConfigMapMissing", describeProblem(problem));
    state.recordConfig(
      { condition: "missing", problems: [problem], resourceVersion: undefined },
      { kind: "config" },
    );
  }

  #tell({ unknown, warnings, changed }: ReturnType<State["takeConfig"]>): void {
    const { logger } = this.#options;
    if (unknown.length > 0) logger.warn("ConfigMap keys match no module", { keys: unknown });
    for (const text of warnings) if (!this.#warned.has(text)) logger.warn(text);
    this.#warned = new Set(warnings);
    if (changed.length > 0) logger.info("ConfigMap changed", { keys: changed });
  }
}
