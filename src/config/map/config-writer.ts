/**
 * Writes hooks' patches of config values into the ConfigMap or, if there is one, into the overlay: the operator's own object, which is merged over
 * the ConfigMap. An edit is a patch for one key. Its section is the parsed text of the key, the configuration of one module. Content in force is
 * what the operator works with: that of the ConfigMap, or the last valid one while the ConfigMap is invalid.
 */

import { ApiError, ConnectionError, isAlreadyExists, isConflict, retryConflicts } from "../../kube/index.ts";
import { describeOverlay, type Overlay, type Section } from "../../base/model/index.ts";
import { serialize } from "../../runtime/index.ts";
import type { State } from "../../engine/state/index.ts";
import {
  checkPatchedConfig,
  patchConfigMapKey,
  parseConfigMap,
  replayStoredPatches,
} from "../../values/index.ts";
import { findSection, withSection } from "../../values/index.ts";
import type { PatchOperation } from "../../values/index.ts";
import type { ConfigObject, ConfigObjects } from "./config-objects.ts";

/** A conflict means that another writer made progress, so many in a row show a writer that never stops. */
const MAX_CONFLICT_TRIES = 20;

export interface ConfigWriterOptions {
  readonly objects: ConfigObjects;
  readonly state: State;
  readonly name: string;
  /** The overlay that hooks write to; undefined = the ConfigMap itself. */
  readonly overlay: Overlay | undefined;
  /** There was never a ConfigMap, because the operator could not create it. */
  readonly isToBeCreated: () => boolean;
  readonly handleUnseenEdits: () => void;
  /** Called after each write, successful or not. */
  readonly onWriteEnd: () => void;
}

/** A hook's patch for one key, and its result for the version (`base`) that was read. */
interface Edit {
  readonly key: string;
  readonly operations: readonly PatchOperation[];
  readonly base: ConfigObject;
  /** The new text; null removes the key. */
  readonly text: string | null;
  /** The new text, parsed. */
  readonly section: Section | undefined;
  readonly changed: boolean;
}

/** Saves hooks' patches one after another; each write changes exactly one key. */
export class ConfigWriter {
  readonly #options: ConfigWriterOptions;
  /** Runs work after all earlier writes have ended. */
  readonly serialize = serialize();
  #isWriting = false;

  constructor(options: ConfigWriterOptions) {
    this.#options = options;
  }

  /** Whether a write is under way: then a change that the watch delivers may be the write itself. */
  get isWriting(): boolean {
    return this.#isWriting;
  }

  /** Saves a hook's patch for one key after all earlier writes, and puts the result in force. Rejects if it cannot be saved. */
  write(key: string, operations: readonly PatchOperation[]): Promise<void> {
    return this.serialize(async () => {
      this.#isWriting = true;
      try {
        const saved = await this.#saveEdit(key, operations);
        if (saved !== undefined) this.#recordSaved(saved);
      } finally {
        this.#isWriting = false;
        this.#options.onWriteEnd();
      }
    });
  }

  /**
   * Applies the patch to the newest version and writes the result. If someone else has written meanwhile (a conflict), starts again
   * with their version, so that no edit is lost. Returns the edit that was written; undefined if there was nothing to write.
   */
  #saveEdit(key: string, operations: readonly PatchOperation[]): Promise<Edit | undefined> {
    let edit: Edit | undefined;
    const isSuperseded = (error: unknown): boolean => isConflict(error) || isAlreadyExists(error);
    const save = async (): Promise<Edit | undefined> => {
      const base = await this.#readBase();
      // A request that the client sent twice conflicts with itself: its first copy is already stored.
      if (edit !== undefined && containsEdit(edit, base)) return edit;
      edit = this.#computeEdit(base, key, operations);
      return edit.changed ? await this.#writeEdit(edit) : undefined;
    };
    return retryConflicts(MAX_CONFLICT_TRIES, save, isSuperseded);
  }

  /**
   * Reads the newest version, which the patch is applied to. Creates a missing overlay with its last known content, and a ConfigMap that could not be
   * created at the start. Throws if the ConfigMap was deleted: only a user may create it again.
   */
  async #readBase(): Promise<ConfigObject> {
    const { objects, name, overlay, isToBeCreated } = this.#options;
    const newest = await objects.read(overlay?.name ?? name);
    if (newest !== undefined) return newest;
    if (overlay !== undefined) return objects.create(overlay.name, objects.getLastKnown(overlay.name)?.data);
    if (isToBeCreated()) return objects.create(name);
    throw new Error(`ConfigMapMissing: ConfigMap ${name} does not exist; the patch was not saved`);
  }

  /** Computes the new text of the key from the version that was read. Throws if the patch does not fit. */
  #computeEdit(base: ConfigObject, key: string, operations: readonly PatchOperation[]): Edit {
    const { name, overlay, state, handleUnseenEdits } = this.#options;
    // Users' edits up to this version must not count as changes by the hook.
    handleUnseenEdits();
    const patched = patchConfigMapKey({
      file: overlay === undefined ? `ConfigMap ${name}` : describeOverlay(overlay),
      data: base.data ?? {},
      key,
      operations,
      // The overlay's section is merged over the ConfigMap's, so the patch must fit both together.
      configMapSection: overlay === undefined ? undefined : (findSection(state.values.config, key) ?? {}),
    });
    return { ...patched, operations, base, text: patched.text ?? null };
  }

  /** Writes the edit, if its result is valid. Throws a conflict if the object has changed meanwhile. */
  async #writeEdit(edit: Edit): Promise<Edit> {
    const { objects, name, overlay, state } = this.#options;
    const target = overlay?.name ?? name;
    // An invalid ConfigMap is not in force; the hook's patch was validated with the content in force.
    if (state.view.config.condition === "ok")
      checkPatchedConfig(state.values, edit.key, this.#computeSections(edit));
    try {
      await objects.writeKey(target, edit.base, { [edit.key]: edit.text });
      return edit;
    } catch (error) {
      // The server may have stored the write although its answer was lost or an error.
      const mayBeStored =
        error instanceof ConnectionError || (error instanceof ApiError && error.status >= 500);
      if (!mayBeStored) throw error;
      const current = await objects.read(target).catch(() => undefined);
      if (current === undefined || !containsEdit(edit, current)) throw error;
      return edit;
    }
  }

  /** Computes the key's sections of ConfigMap and overlay as they are once the edit is in force. */
  #computeSections({ key, section, operations }: Edit): {
    config: Section | undefined;
    overlay: Section | undefined;
  } {
    const { overlay, state } = this.#options;
    const { config, overlay: currentOverlay } = state.values;
    if (overlay !== undefined) return { config: findSection(config, key), overlay: section };
    // An invalid ConfigMap is not in force: the patch then applies to the last valid content.
    const isInForce = state.view.config.condition === "ok";
    const newSection = isInForce ? section : replayStoredPatches(findSection(config, key), operations);
    return { config: newSection, overlay: findSection(currentOverlay, key) };
  }

  /**
   * Puts the saved edit in force at once, as a change of the operator's own, which causes no run: the next task must see it, and the watch event
   * of the write, which comes later, then changes nothing.
   */
  #recordSaved(edit: Edit): void {
    const { state } = this.#options;
    const { condition, problems, resourceVersion } = state.view.config;
    const sections = this.#computeSections(edit);
    const { config = this.#emptyConfig(), overlay: overlayBefore = this.#emptyConfig() } = state.values;
    const content = withSection(config, edit.key, sections.config);
    const hasOverlay = this.#options.overlay !== undefined;
    const overlay = hasOverlay
      ? withSection(overlayBefore, edit.key, sections.overlay)
      : state.values.overlay;
    state.inputs.recordOwnConfig({ condition, problems, resourceVersion, content, overlay });
  }

  /** The parsed form of a ConfigMap without keys. */
  #emptyConfig(): ReturnType<typeof parseConfigMap> {
    return parseConfigMap("", {}, this.#options.state.values.modules());
  }
}

/** Whether the object, in another version than the one that the edit was computed from, contains the result of the edit. */
function containsEdit({ key, text, base }: Edit, { data = {}, resourceVersion }: ConfigObject): boolean {
  const currentText = Object.hasOwn(data, key) ? data[key] : null;
  return currentText === text && resourceVersion !== base.resourceVersion;
}
