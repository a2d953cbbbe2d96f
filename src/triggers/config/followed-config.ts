/** The ConfigMap and its overlay: read, watched, written by hooks (docs/VALUES.md, "The ConfigMap"). */

import { ownerOf } from "../../helm/index.ts";
import { oneLine } from "../../lib/index.ts";
import type { Clock, Timer } from "../../lib/index.ts";
import { isAlreadyExists, isForbidden } from "../../kube/index.ts";
import type { Subscription } from "../../kube/index.ts";
import { describeOverlay } from "../../model/index.ts";
import type { Overlay } from "../../model/index.ts";
import { happened } from "../../trace/index.ts";
import type { PatchOperation } from "../../values/index.ts";
import { ConfigJudge } from "./config-judge.ts";
import type { ConfigJudgeOptions } from "./config-judge.ts";
import { ConfigObjects } from "./config-objects.ts";
import type { ConfigLocation, ConfigObject } from "./config-objects.ts";
import { ConfigWriter } from "./config-writer.ts";
import { moveOverlay } from "./overlay-move.ts";

/** Where the ConfigMap is, and what is called on changes. */
export interface FollowedConfigOptions extends ConfigLocation, ConfigJudgeOptions {
  readonly clock: Clock;
}

/** Edits within this time are taken together. */
const THROTTLE_MS = 10;
/** An overlay that could not be written again is tried again after this time. */
const RESTORE_AGAIN_MS = 5000;

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
  #isClosed = false;
  #restoreTimer: Timer | undefined;

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
      this.#subscriptions.push(this.#objects.follow(overlay.name, () => this.#overlayChanged(overlay)));
    }
    await Promise.all(this.#subscriptions.map((subscription) => subscription.synced));
  }

  /** Judges the last content once more, since the modules that its keys belong to have changed. */
  judgeAgain(): void {
    if (this.#judged !== undefined) this.#judge.take(this.#judged, this.#overlay);
  }

  close(): void {
    this.#throttle.close();
    this.#restoreTimer?.cancel();
    this.#isClosed = true;
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

  /** The overlay belongs to the operator: when somebody deletes it, it is written again from memory. */
  #overlayChanged(overlay: Overlay): void {
    this.#throttle.touch();
    if (this.#objects.latest(overlay.name) === undefined)
      void this.#writer.inTurn(() => this.#restore(overlay));
  }

  async #restore(overlay: Overlay): Promise<void> {
    if (this.#isClosed) return;
    const { clock, logger } = this.#options;
    const { data } = this.#objects.last(overlay.name) ?? {};
    const isThere = this.#objects.latest(overlay.name) !== undefined;
    const what = describeOverlay(overlay);
    if (isThere || data === undefined || Object.keys(data).length === 0) return;
    try {
      await this.#objects.create(overlay.name, data);
      logger.info("The overlay was deleted; it is written again from memory", { overlay: what });
    } catch (error) {
      if (isAlreadyExists(error)) return;
      logger.warn("The overlay cannot be written", { overlay: what, error: oneLine(error) });
      if (this.#isClosed) return;
      this.#restoreTimer?.cancel();
      this.#restoreTimer = clock.setTimer(RESTORE_AGAIN_MS, () => this.#overlayChanged(overlay));
    }
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
