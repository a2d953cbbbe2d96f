/** What a hook's config patch writes into the ConfigMap or the overlay. */

import { canonicalJson, toYaml } from "../../lib/index.ts";
import { GLOBAL, ProblemError, isJsonObject, member, setMember } from "../../model/index.ts";
import type { Json, JsonObject, Section } from "../../model/index.ts";
import { applyPatch } from "../patch/apply-patch.ts";
import type { SectionInput } from "../layers.ts";
import { merge } from "../layers.ts";
import type { PatchOperation } from "../patch/apply-patch.ts";
import { parseDocument, readSection } from "../static-values.ts";

/** Most bytes of data that the API server accepts for one ConfigMap. */
export const CONFIG_MAP_LIMIT = 1024 * 1024;

/** A config patch for one key of the ConfigMap (or its overlay), with the present content. */
export interface ConfigEdit {
  /** The object that is written, for messages: `ConfigMap addon-operator`. */
  readonly file: string;
  /** Present data of the object that is written. */
  readonly data: Readonly<Record<string, string>>;
  readonly key: string;
  readonly operations: readonly PatchOperation[];
  /** When the overlay is written: what the ConfigMap below it says for the key. */
  readonly below?: Section | undefined;
}

/** The new content of one key; every other key stays as it is. */
export interface ConfigWrite {
  readonly key: string;
  /** The new text; undefined = the key is removed. */
  readonly text: string | undefined;
  /** False when the patch changes nothing: then nothing is written. */
  readonly changed: boolean;
  /** What the key says after the write. */
  readonly section: Section | undefined;
}

/**
 * The new content of one key of a ConfigMap when `operations` are applied to its present content. Throws
 * ProblemError when the key cannot be read, or when the ConfigMap would grow beyond 1 MiB (key and sizes named),
 * PatchError when the patch does not fit.
 */
export function nextConfigMapData(edit: ConfigEdit): ConfigWrite {
  const before = currentSection(edit);
  const section = patchedSection(before, edit.operations, edit.below);
  const changed = canonicalJson(before) !== canonicalJson(section);
  if (!changed) return { key: edit.key, text: member(edit.data, edit.key), changed, section };
  const text = section === undefined ? undefined : toYaml(section);
  if (text !== undefined) checkDataSize(edit.file, { ...edit.data, [edit.key]: text }, edit.key);
  return { key: edit.key, text, changed, section };
}

/** A section with a hook's patch applied; a section of the overlay when `below` is what the ConfigMap says. */
function patchedSection(
  section: Section | undefined,
  operations: readonly PatchOperation[],
  below: Section | undefined,
): Section | undefined {
  const wanted = applyPatch(merge(below, section) as Section | undefined, operations);
  return below === undefined ? wanted : overlayFor(below, wanted);
}

/** What ConfigMap and overlay say of a section. */
export type Sections = Pick<SectionInput, "config" | "overlay">;

/** What both will say when a hook's patch is saved. */
export function patchedSections(
  { config, overlay }: Sections,
  operations: readonly PatchOperation[],
  isOverlaid: boolean,
): Sections {
  if (operations.length === 0) return { config, overlay };
  if (!isOverlaid) return { config: applyPatch(config, operations), overlay };
  return { config, overlay: patchedSection(overlay, operations, config ?? {}) };
}

function currentSection(edit: ConfigEdit): Section | undefined {
  const text = member(edit.data, edit.key);
  if (text === undefined) return undefined;
  const { file } = edit;
  const { value } = parseDocument(text, file, edit.key);
  if (edit.key === GLOBAL && value !== null && !isJsonObject(value)) {
    throw new ProblemError([{ file, key: edit.key, message: "must be a map" }]);
  }
  const { section, enabled } = readSection(value, file, edit.key);
  if (enabled === undefined) return section ?? {};
  const remedy = `write ${edit.key}Enabled: "false" instead`;
  const message = "a section that is false cannot be patched";
  throw new ProblemError([{ file, key: edit.key, message, remedy }]);
}

/** Throws ProblemError naming `key` and the sizes when `data` is larger than the API server accepts. */
function checkDataSize(file: string, data: Readonly<Record<string, string>>, key: string): void {
  const size = Object.values(data).reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  if (size <= CONFIG_MAP_LIMIT) return;
  const message = `would have ${Buffer.byteLength(member(data, key) ?? "")} bytes, and the whole ${file.split(" ")[0]} ${size} of at most ${CONFIG_MAP_LIMIT}`;
  const remedy = "keep large values elsewhere, e.g. in a Secret that the hook reads";
  throw new ProblemError([{ file, key, message, remedy }]);
}

/**
 * The smallest overlay section that turns `below` into `wanted`: changed leaves, and null for removed ones.
 * Undefined when nothing differs.
 */
export function overlayFor(below: Section, wanted: Section | undefined): Section | undefined {
  return difference(below, wanted ?? {}) as Section | undefined;
}

function difference(below: Json, wanted: Json): Json | undefined {
  if (canonicalJson(below) === canonicalJson(wanted)) return undefined;
  if (!isJsonObject(below) || !isJsonObject(wanted)) return wanted;
  const changed: JsonObject = {};
  for (const key of new Set([...Object.keys(below), ...Object.keys(wanted)])) {
    const lower = member(below, key);
    const upper = member(wanted, key) ?? null;
    const part = lower === undefined ? upper : difference(lower, upper);
    if (part !== undefined) setMember(changed, key, part);
  }
  return changed;
}
