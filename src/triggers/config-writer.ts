import { isConflict } from "../kube/index.ts";
import type { Section } from "../model/index.ts";
import { sectionIn, withSection } from "../state/index.ts";
import type { State } from "../state/index.ts";
import { applyPatch, nextConfigMapData, parseConfigMap } from "../values/index.ts";
import type { PatchOperation } from "../values/index.ts";
import type { ConfigObject, ConfigObjects } from "./config-objects.ts";

const CONFLICT_TRIES = 20;

export interface WriterParts {
  readonly objects: ConfigObjects;
  readonly state: State;
  readonly name: string;
  /** Where hooks write to; undefined = into the ConfigMap itself. */
  readonly overlay: string | undefined;
  /** What the ConfigMap that was written to is now. */
  readonly saved: (object: ConfigObject) => void;
}

/** Saves what hooks patch: one write after the other, each to exactly one key (README "ConfigMap"). */
export class ConfigWriter {
  readonly #parts: WriterParts;
  #writing: Promise<unknown> = Promise.resolve();

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  /** As {@link ConfigMapSource.write}. */
  write(key: string, operations: readonly PatchOperation[]): Promise<void> {
    return this.inTurn(() => this.#write(key, operations));
  }

  /** Runs `work` after all writes before it. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#writing.then(work);
    this.#writing = turn.catch(() => {});
    return turn;
  }

  async #write(key: string, operations: readonly PatchOperation[]): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#writeOnce(key, operations);
      } catch (error) {
        if (!isConflict(error) || tries >= CONFLICT_TRIES) throw error;
      }
    }
  }

  async #writeOnce(key: string, operations: readonly PatchOperation[]): Promise<void> {
    const { objects, name, overlay, state, saved } = this.#parts;
    const target = overlay ?? name;
    const fresh = (await objects.read(target)) ?? (await this.#missing(target));
    const below = overlay === undefined ? undefined : (sectionIn(state.values.config, key) ?? {});
    const next = nextConfigMapData({ name: target, data: fresh.data ?? {}, key, operations, below });
    if (!next.changed) return;
    const after = await objects.writeKey(target, fresh, { [key]: next.text ?? null });
    if (overlay === undefined) this.#takeIn(key, operations);
    else this.#takeInOverlay(key, next.section);
    // What others wrote meanwhile is in the answer too, and is looked at like any edit.
    saved(after);
  }

  /** The overlay is ours to create; a missing ConfigMap only someone else can bring back. */
  async #missing(target: string): Promise<ConfigObject> {
    const { objects, overlay } = this.#parts;
    if (target === overlay) return objects.create(target);
    throw new Error(`ConfigMapMissing: ConfigMap ${target} does not exist; the patch was not saved`);
  }

  /** What was saved comes into force at once; the echo on the watch then changes nothing. */
  #takeIn(key: string, operations: readonly PatchOperation[]): void {
    const { state } = this.#parts;
    const { condition, problems, resourceVersion } = state.view.config;
    const config = state.values.config ?? this.#empty();
    const content = withSection(config, key, applyPatch(sectionIn(config, key), operations));
    const { overlay } = state.values;
    state.recordOwnConfig({ condition, problems, resourceVersion, content, overlay });
  }

  #takeInOverlay(key: string, section: Section | undefined): void {
    const { state } = this.#parts;
    const { condition, problems, resourceVersion } = state.view.config;
    const content = state.values.config ?? this.#empty();
    const overlay = withSection(state.values.overlay ?? this.#empty(), key, section);
    state.recordOwnConfig({ condition, problems, resourceVersion, content, overlay });
  }

  #empty(): ReturnType<typeof parseConfigMap> {
    return parseConfigMap("", {}, this.#parts.state.values.modules());
  }
}
