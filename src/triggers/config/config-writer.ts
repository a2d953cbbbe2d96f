/** Writes what hooks patch into the ConfigMap or the overlay. */

import { ApiError, ConnectionError, isAlreadyExists, isConflict, retryConflicts } from "../../kube/index.ts";
import { describeOverlay, type Overlay, type Section } from "../../model/index.ts";
import type { State } from "../../state/index.ts";
import { nextConfigMapData, parseConfigMap, replay, sectionIn, withSection } from "../../values/index.ts";
import type { PatchOperation } from "../../values/index.ts";
import type { ConfigObject, ConfigObjects } from "./config-objects.ts";

const CONFLICT_TRIES = 20;

export interface ConfigWriterOptions {
  readonly objects: ConfigObjects;
  readonly state: State;
  readonly name: string;
  /** Where hooks write to; undefined = into the ConfigMap itself. */
  readonly overlay: Overlay | undefined;
  /** Called first, to take over everything known: the write builds upon it. */
  readonly seen: () => void;
  /** Called when a write is over, successful or not. */
  readonly ended: () => void;
}

/** A hook's patch, and what it makes of one key of the version that was read. */
interface Edit {
  readonly key: string;
  readonly operations: readonly PatchOperation[];
  readonly base: ConfigObject;
  /** The new text; null = the key goes. */
  readonly text: string | null;
  /** What that text says. */
  readonly section: Section | undefined;
  readonly changed: boolean;
}

/** Saves what hooks patch: one write after the other, each to exactly one key. */
export class ConfigWriter {
  readonly #options: ConfigWriterOptions;
  #writing: Promise<unknown> = Promise.resolve();
  #isWriting = false;

  constructor(options: ConfigWriterOptions) {
    this.#options = options;
  }

  /** A write was begun and has not been answered yet. */
  get isWriting(): boolean {
    return this.#isWriting;
  }

  /** As {@link FollowedConfig.write}. */
  write(key: string, operations: readonly PatchOperation[]): Promise<void> {
    return this.inTurn(async () => {
      this.#isWriting = true;
      try {
        const saved = await this.#save(key, operations);
        if (saved !== undefined) this.#takeIn(saved);
      } finally {
        this.#isWriting = false;
        this.#options.ended();
      }
    });
  }

  /** Runs `work` after all writes before it. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#writing.then(work);
    this.#writing = turn.catch(() => {});
    return turn;
  }

  /** What was written; undefined when there was nothing to write. */
  #save(key: string, operations: readonly PatchOperation[]): Promise<Edit | undefined> {
    let edit: Edit | undefined;
    const isOvertaken = (error: unknown): boolean => isConflict(error) || isAlreadyExists(error);
    const save = async (): Promise<Edit | undefined> => {
      const base = await this.#base();
      // A request that was sent twice is a conflict with itself.
      if (edit !== undefined && stands(edit, base)) return edit;
      edit = this.#edit(base, key, operations);
      return edit.changed ? await this.#put(edit) : undefined;
    };
    return retryConflicts(CONFLICT_TRIES, save, isOvertaken);
  }

  /**
   * The version to build upon. The overlay can be created; a missing ConfigMap can only be brought back by somebody
   * else.
   */
  async #base(): Promise<ConfigObject> {
    const { objects, name, overlay } = this.#options;
    const found = await objects.read(overlay?.name ?? name);
    if (found !== undefined) return found;
    if (overlay !== undefined) return objects.create(overlay.name, objects.last(overlay.name)?.data);
    throw new Error(`ConfigMapMissing: ConfigMap ${name} does not exist; the patch was not saved`);
  }

  #edit(base: ConfigObject, key: string, operations: readonly PatchOperation[]): Edit {
    const { name, overlay, state, seen } = this.#options;
    // Edits that were not seen yet are others', whatever becomes of the key.
    seen();
    const below = overlay === undefined ? undefined : (sectionIn(state.values.config, key) ?? {});
    const { text = null, ...next } = nextConfigMapData({
      file: overlay === undefined ? `ConfigMap ${name}` : describeOverlay(overlay),
      data: base.data ?? {},
      key,
      operations,
      below,
    });
    return { ...next, operations, base, text };
  }

  async #put(edit: Edit): Promise<Edit> {
    const { objects, name, overlay, state } = this.#options;
    const target = overlay?.name ?? name;
    if (state.view.config.condition === "ok") state.values.checkPatched(edit.key, this.#inForce(edit));
    try {
      await objects.writeKey(target, edit.base, { [edit.key]: edit.text });
      return edit;
    } catch (error) {
      const isUnsure = error instanceof ConnectionError || (error instanceof ApiError && error.status >= 500);
      if (!isUnsure) throw error;
      const now = await objects.read(target).catch(() => undefined);
      if (now === undefined || !stands(edit, now)) throw error;
      return edit;
    }
  }

  /** Both sections of the key once the edit is in force. */
  #inForce({ key, section, operations }: Edit): {
    config: Section | undefined;
    overlay: Section | undefined;
  } {
    const { overlay, state } = this.#options;
    const { config, overlay: over } = state.values;
    if (overlay !== undefined) return { config: sectionIn(config, key), overlay: section };
    // An invalid ConfigMap is not in force; the patch is, over the last good content.
    const isInForce = state.view.config.condition === "ok";
    const inForce = isInForce ? section : replay(sectionIn(config, key), operations);
    return { config: inForce, overlay: sectionIn(over, key) };
  }

  /** What was saved comes into force at once; the watch event for it then changes nothing. */
  #takeIn(edit: Edit): void {
    const { state } = this.#options;
    const { condition, problems, resourceVersion } = state.view.config;
    const sections = this.#inForce(edit);
    const { config = this.#empty(), overlay } = state.values;
    const content = withSection(config, edit.key, sections.config);
    const isOverlaid = this.#options.overlay !== undefined;
    const over = isOverlaid ? withSection(overlay ?? this.#empty(), edit.key, sections.overlay) : overlay;
    state.recordOwnConfig({ condition, problems, resourceVersion, content, overlay: over });
  }

  #empty(): ReturnType<typeof parseConfigMap> {
    return parseConfigMap("", {}, this.#options.state.values.modules());
  }
}

/** Whether the key says what the edit made of it. */
function stands({ key, text, base }: Edit, { data = {}, metadata }: ConfigObject): boolean {
  const now = Object.hasOwn(data, key) ? data[key] : null;
  return now === text && metadata.resourceVersion !== base.metadata.resourceVersion;
}
