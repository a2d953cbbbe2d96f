import { oneLine } from "../lib/index.ts";
import type { Clock } from "../lib/index.ts";
import { isAlreadyExists, isForbidden } from "../kube/index.ts";
import type { Subscription } from "../kube/index.ts";
import type { PatchOperation } from "../values/index.ts";
import { Burst } from "./burst.ts";
import { ConfigJudge } from "./config-judge.ts";
import type { JudgeParts } from "./config-judge.ts";
import { ConfigObjects } from "./config-objects.ts";
import type { ConfigHome, ConfigObject } from "./config-objects.ts";
import { ConfigWriter } from "./config-writer.ts";

/** Where the ConfigMap is and who hears of it; `overlay` undefined = hooks write into the ConfigMap itself. */
export interface ConfigMapOptions extends ConfigHome, JudgeParts {
  readonly clock: Clock;
}

/** Edits that come within this time are taken together. */
const BURST_MS = 10;
/** An overlay that could not be written again is tried again after this time. */
const RESTORE_AGAIN_MS = 5000;

/**
 * The ConfigMap as a source of configuration and as the place hooks write to (README "ConfigMap"). What was read is
 * recorded when it is valid; else the whole last good content stays in force.
 */
export class ConfigMapSource {
  readonly #options: ConfigMapOptions;
  readonly #objects: ConfigObjects;
  readonly #judge: ConfigJudge;
  readonly #writer: ConfigWriter;
  readonly #burst: Burst;
  readonly #subscriptions: Subscription[] = [];
  #object: ConfigObject | undefined;
  #overlay: ConfigObject | undefined;

  constructor(options: ConfigMapOptions) {
    const { overlay, clock } = options;
    this.#options = options;
    this.#objects = new ConfigObjects(options);
    this.#judge = new ConfigJudge(options);
    this.#burst = new Burst(clock, BURST_MS, () => this.#take());
    const saved = (object: ConfigObject): void => {
      if (overlay === undefined) this.#object = object;
      else this.#overlay = object;
      this.#burst.touch();
    };
    this.#writer = new ConfigWriter({ ...options, objects: this.#objects, saved });
  }

  /**
   * Reads both ConfigMaps anew and records what they say; false when the ConfigMap is missing, which is recorded only
   * after there has been one.
   */
  async refresh(): Promise<boolean> {
    const { name, overlay } = this.#options;
    this.#object = await this.#objects.read(name);
    if (overlay !== undefined) this.#overlay = await this.#objects.read(overlay);
    this.#take();
    return this.#object !== undefined;
  }

  /** Creates an empty ConfigMap, a first start, unless someone has been faster; where it may not, it works as with one. */
  async createEmpty(): Promise<void> {
    const { logger, name } = this.#options;
    try {
      this.#object = await this.#objects.create(name);
      this.#take();
      logger.info("Created an empty ConfigMap");
    } catch (error) {
      if (isAlreadyExists(error)) return void (await this.refresh());
      if (!isForbidden(error)) throw error;
      logger.warn("The empty ConfigMap cannot be created", { configMap: name, error: oneLine(error) });
      this.#judge.take({ metadata: { resourceVersion: "" } }, this.#overlay);
    }
  }

  /** Records that the ConfigMap is missing although releases of ours exist. */
  missingAtStart(): void {
    this.#judge.missingAtStart();
  }

  /** Follows both ConfigMaps; resolves when they were seen once. */
  async watch(): Promise<void> {
    const { name, overlay } = this.#options;
    const see = (object: ConfigObject | undefined): void => {
      this.#object = object;
      this.#burst.touch();
    };
    this.#subscriptions.push(this.#objects.follow(name, see));
    if (overlay !== undefined) {
      const seeOverlay = (object: ConfigObject | undefined): void => {
        this.#overlaySeen(overlay, object);
        this.#burst.touch();
      };
      this.#subscriptions.push(this.#objects.follow(overlay, seeOverlay));
    }
    await Promise.all(this.#subscriptions.map((subscription) => subscription.synced));
  }

  /** Judges what was read last once more, as the modules its keys belong to have changed. */
  judgeAgain(): void {
    if (this.#object !== undefined) this.#take();
  }

  close(): void {
    this.#burst.close();
    for (const subscription of this.#subscriptions) subscription.close();
  }

  /**
   * Applies a hook's patch to exactly one key, over fresh content, and takes it into force. Throws when it could not
   * be saved: the ConfigMap is missing, its key does not parse, it grows too large, or the server refuses.
   */
  write(key: string, operations: readonly PatchOperation[]): Promise<void> {
    return this.#writer.write(key, operations);
  }

  #take(): void {
    this.#judge.take(this.#object, this.#overlay);
  }

  /** The overlay is ours: what someone deletes is written again from memory. */
  #overlaySeen(name: string, object: ConfigObject | undefined): void {
    if (object !== undefined) {
      this.#overlay = object;
      return;
    }
    const { data } = this.#overlay ?? {};
    if (data === undefined || Object.keys(data).length === 0) return;
    void this.#writer.inTurn(() => this.#restore(name, data));
  }

  async #restore(name: string, data: Readonly<Record<string, string>>): Promise<void> {
    const { clock, logger } = this.#options;
    try {
      this.#overlay = await this.#objects.create(name, data);
      logger.info("The overlay ConfigMap was deleted; it is written again from memory", { configMap: name });
    } catch (error) {
      if (isAlreadyExists(error)) return;
      logger.warn("The overlay ConfigMap cannot be written", { configMap: name, error: oneLine(error) });
      clock.setTimer(RESTORE_AGAIN_MS, () => this.#overlaySeen(name, undefined));
    }
  }
}
