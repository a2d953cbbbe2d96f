import { oneLine } from "../lib/index.ts";
import type { Clock, Logger, Timer } from "../lib/index.ts";
import {
  CONFIG_MAPS,
  create,
  get,
  isAlreadyExists,
  isConflict,
  isNotFound,
  mergePatch,
} from "../kube/index.ts";
import type { KubeClient, Subscription, WatchHub } from "../kube/index.ts";
import { describeProblem } from "../model/index.ts";
import type { JsonObject, Problem, Section } from "../model/index.ts";
import { checkConfig, sectionIn, withSection } from "../state/index.ts";
import type { State } from "../state/index.ts";
import { applyPatch, nextConfigMapData, parseConfigMap } from "../values/index.ts";
import type { ParsedConfig, PatchOperation } from "../values/index.ts";

/** What we read of a ConfigMap object. */
interface ConfigMapObject {
  readonly metadata: { readonly resourceVersion: string; readonly uid?: string };
  readonly data?: Readonly<Record<string, string>>;
}

export interface ConfigMapOptions {
  readonly client: KubeClient;
  readonly hub: WatchHub;
  readonly state: State;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly namespace: string;
  readonly name: string;
  /** Name of the ConfigMap for what hooks write; undefined = hooks write into the ConfigMap itself. */
  readonly overlay: string | undefined;
  /** Told when new content was refused, or the ConfigMap went. */
  readonly onTrouble: (reason: "ConfigMapInvalid" | "ConfigMapMissing", message: string) => void;
}

/** Edits that come within this time are taken together. */
const BURST_MS = 10;
const CONFLICT_TRIES = 20;
/** An overlay that could not be written again is tried again after this time. */
const RESTORE_AGAIN_MS = 5000;

/**
 * The ConfigMap as a source of configuration and as the place hooks write to (README "ConfigMap"). What was read is
 * recorded when it is valid; else the whole last good content stays in force.
 */
export class ConfigMapSource {
  readonly #options: ConfigMapOptions;
  readonly #subscriptions: Subscription[] = [];
  #object: ConfigMapObject | undefined;
  #overlay: ConfigMapObject | undefined;
  /** Versions older than our own last write are echoes of the past. */
  readonly #written = new Map<string, bigint>();
  /** Whether there ever was a ConfigMap. */
  #seen = false;
  #timer: Timer | undefined;
  #waiting = false;
  #writing: Promise<unknown> = Promise.resolve();

  constructor(options: ConfigMapOptions) {
    this.#options = options;
  }

  /** Reads both ConfigMaps anew and records what they say; false when the ConfigMap is missing. */
  async refresh(): Promise<boolean> {
    const { name, overlay } = this.#options;
    this.#object = await this.#read(name);
    if (overlay !== undefined) this.#overlay = await this.#read(overlay);
    this.#take();
    return this.#object !== undefined;
  }

  /** Creates an empty ConfigMap: a first start. */
  async createEmpty(): Promise<void> {
    this.#object = await this.#create(this.#options.name);
    this.#take();
  }

  /** Follows both ConfigMaps; resolves when they were seen once. */
  async watch(): Promise<void> {
    const { name, overlay } = this.#options;
    this.#subscribe(name, (object) => void (this.#object = object));
    if (overlay !== undefined) this.#subscribe(overlay, (object) => this.#overlaySeen(overlay, object));
    await Promise.all(this.#subscriptions.map((subscription) => subscription.synced));
  }

  /** Judges what was read last once more, as the modules its keys belong to have changed. */
  judgeAgain(): void {
    if (this.#object !== undefined) this.#take();
  }

  close(): void {
    this.#timer?.cancel();
    for (const subscription of this.#subscriptions) subscription.close();
  }

  /**
   * Applies a hook's patch to exactly one key, over fresh content, and takes it into force. Throws when it could not
   * be saved: the ConfigMap is missing, its key does not parse, it grows too large, or the server refuses.
   */
  write(key: string, operations: readonly PatchOperation[]): Promise<void> {
    const turn = this.#writing.then(() => this.#write(key, operations));
    this.#writing = turn.catch(() => {});
    return turn;
  }

  async #write(key: string, operations: readonly PatchOperation[]): Promise<void> {
    const target = this.#options.overlay ?? this.#options.name;
    for (let tries = 1; ; tries++) {
      try {
        return await this.#writeOnce(target, key, operations);
      } catch (error) {
        if (!isConflict(error) || tries >= CONFLICT_TRIES) throw error;
      }
    }
  }

  async #writeOnce(target: string, key: string, operations: readonly PatchOperation[]): Promise<void> {
    const { client, namespace, overlay, state } = this.#options;
    const fresh = (await this.#read(target)) ?? (await this.#missing(target));
    const below = overlay === undefined ? undefined : (sectionIn(state.values.config, key) ?? {});
    const next = nextConfigMapData({ name: target, data: fresh.data ?? {}, key, operations, below });
    if (!next.changed) return;
    const { resourceVersion } = fresh.metadata;
    const saved = await mergePatch<ConfigMapObject & JsonObject>(
      client,
      { resource: CONFIG_MAPS, namespace, name: target },
      { body: { metadata: { resourceVersion }, data: { [key]: next.text ?? null } } },
    );
    this.#written.set(target, BigInt(saved.metadata.resourceVersion));
    this.#remember(key, overlay === undefined ? operations : next.section);
    // What others wrote meanwhile is in the answer too, and is looked at like any edit.
    if (overlay === undefined) this.#object = saved;
    else this.#overlay = saved;
    this.#soon();
  }

  /** The overlay is ours to create; a missing ConfigMap only someone else can bring back. */
  async #missing(target: string): Promise<ConfigMapObject> {
    if (target === this.#options.name)
      throw new Error(`ConfigMapMissing: ConfigMap ${target} does not exist; the patch was not saved`);
    return this.#create(target);
  }

  /** What was saved comes into force at once; the echo on the watch then changes nothing. */
  #remember(key: string, change: readonly PatchOperation[] | Section | undefined): void {
    const { state, overlay } = this.#options;
    const { values, view } = state;
    const { condition, problems, resourceVersion } = view.config;
    const empty = this.#parse("", {});
    const config = values.config ?? empty;
    const content =
      overlay === undefined
        ? withSection(config, key, applyPatch(sectionIn(config, key), change as readonly PatchOperation[]))
        : config;
    const over =
      overlay === undefined
        ? values.overlay
        : withSection(values.overlay ?? empty, key, change as Section | undefined);
    state.recordOwnConfig({ condition, problems, resourceVersion, content, overlay: over });
  }

  async #read(name: string): Promise<ConfigMapObject | undefined> {
    const { client, namespace } = this.#options;
    try {
      return await get<ConfigMapObject & JsonObject>(client, { resource: CONFIG_MAPS, namespace, name });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** The overlay is ours: what someone deletes is written again from memory. */
  #overlaySeen(name: string, object: ConfigMapObject | undefined): void {
    if (object !== undefined) {
      this.#overlay = object;
      return;
    }
    const { data } = this.#overlay ?? {};
    if (data === undefined || Object.keys(data).length === 0) return;
    this.#writing = this.#writing.then(() => this.#restore(name, data)).catch(() => {});
  }

  async #restore(name: string, data: Readonly<Record<string, string>>): Promise<void> {
    const { clock, logger } = this.#options;
    try {
      this.#overlay = await this.#create(name, data);
      logger.info("The overlay ConfigMap was deleted; it is written again from memory", { configMap: name });
    } catch (error) {
      if (isAlreadyExists(error)) return;
      logger.warn("The overlay ConfigMap cannot be written", { configMap: name, error: oneLine(error) });
      clock.setTimer(RESTORE_AGAIN_MS, () => this.#overlaySeen(name, undefined));
    }
  }

  #create(name: string, data?: Readonly<Record<string, string>>): Promise<ConfigMapObject> {
    const { client, namespace } = this.#options;
    const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data };
    return create<ConfigMapObject & JsonObject>(client, { resource: CONFIG_MAPS, namespace }, { body });
  }

  #subscribe(name: string, set: (object: ConfigMapObject | undefined) => void): void {
    const { hub, namespace, logger } = this.#options;
    const seen = (object: JsonObject): void => {
      const seenObject = object as unknown as ConfigMapObject;
      if (BigInt(seenObject.metadata.resourceVersion) < (this.#written.get(name) ?? 0n)) return;
      set(seenObject);
      this.#soon();
    };
    let listed = false;
    this.#subscriptions.push(
      hub.subscribe(
        { resource: CONFIG_MAPS, namespace, fieldSelector: `metadata.name=${name}` },
        {
          begin: () => void (listed = false),
          object: (object) => {
            listed = true;
            seen(object);
          },
          synced: () => {
            if (!listed) set(undefined);
            this.#soon();
          },
          applied: seen,
          deleted: () => {
            set(undefined);
            this.#soon();
          },
          trouble: (error) =>
            error !== undefined &&
            logger.warn("ConfigMap cannot be watched", { configMap: name, error: oneLine(error) }),
        },
      ),
    );
  }

  /** The first edit is taken at once, those that follow closely are taken together. */
  #soon(): void {
    if (this.#timer !== undefined) {
      this.#waiting = true;
      return;
    }
    queueMicrotask(() => this.#take());
    this.#timer = this.#options.clock.setTimer(BURST_MS, () => {
      this.#timer = undefined;
      const more = this.#waiting;
      this.#waiting = false;
      if (more) this.#soon();
    });
  }

  /** Judges what was read last and records it. */
  #take(): void {
    const { state, name, overlay } = this.#options;
    const object = this.#object;
    if (object === undefined) return this.#gone();
    this.#seen = true;
    const config = this.#parse(name, object.data ?? {});
    const overlayed = overlay === undefined ? undefined : this.#parse(overlay, this.#overlay?.data ?? {});
    const problems = checkConfig(state.values, { name, config, overlay: overlayed });
    const { resourceVersion } = object.metadata;
    if (problems.length > 0) return this.#refuse(problems, resourceVersion);
    this.#warnUnknown(config);
    state.recordConfig(
      { condition: "ok", problems: [], resourceVersion, content: config, overlay: overlayed },
      { text: "ConfigMap changed", place: "front" },
    );
  }

  #gone(): void {
    const { state, name, onTrouble } = this.#options;
    // At a first start there is none yet, which is no trouble.
    if (this.#seen && state.view.config.condition !== "missing") {
      onTrouble("ConfigMapMissing", `ConfigMap ${name} does not exist; the last good content stays in force`);
    }
    state.recordConfig(
      { condition: "missing", problems: [], resourceVersion: undefined },
      { text: "", place: "front" },
    );
  }

  #refuse(problems: readonly Problem[], resourceVersion: string): void {
    const { state, onTrouble } = this.#options;
    const seen = state.view.config;
    if (seen.condition !== "invalid" || seen.resourceVersion !== resourceVersion) {
      onTrouble("ConfigMapInvalid", problems.map(describeProblem).join("; "));
    }
    state.recordConfig({ condition: "invalid", problems, resourceVersion }, { text: "", place: "front" });
  }

  #warnUnknown(config: ParsedConfig): void {
    const known = new Set(this.#options.state.view.config.unknownKeys);
    const fresh = config.unknownKeys.filter((key) => !known.has(key));
    if (fresh.length > 0) this.#options.logger.warn("ConfigMap keys match no module", { keys: fresh });
  }

  #parse(name: string, data: Readonly<Record<string, string>>): ParsedConfig {
    return parseConfigMap(name, data, this.#options.state.values.modules());
  }
}
