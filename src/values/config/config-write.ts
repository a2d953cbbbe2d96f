/**
 * Applies a hook's config patch to the ConfigMap, or to the overlay: the operator's own ConfigMap or Secret, whose values lie above those
 * of the ConfigMap. A *section* has the values of one module or the global ones; it is the YAML text of one key.
 */

import { canonicalJson, toYaml } from "../../base/index.ts";
import { GLOBAL, ProblemError, isJsonObject, member, setMember, merge } from "../../base/model/index.ts";
import type { Json, JsonObject, Problem, Section } from "../../base/model/index.ts";
import { applyJsonPatch } from "../patch/apply-patch.ts";
import type { SectionInput } from "../layers.ts";
import type { PatchOperation } from "../patch/apply-patch.ts";
import { parseDocument, readSection } from "../static-values.ts";

/** Most bytes of data that the API server accepts for one ConfigMap. */
export const CONFIG_MAP_LIMIT = 1024 * 1024;

/** A config patch for one key of the ConfigMap (or its overlay), with the current content. */
export interface KeyEdit {
  /** The object to write, for messages: `ConfigMap addon-operator`. */
  readonly file: string;
  /** Current data of the object to write. */
  readonly data: Readonly<Record<string, string>>;
  readonly key: string;
  readonly operations: readonly PatchOperation[];
  /** For writes to the overlay: the section of the key in the ConfigMap. */
  readonly configMapSection?: Section | undefined;
}

/** The new content of one key; every other key stays as it is. */
export interface ConfigWrite {
  readonly key: string;
  /** The new text; undefined = the key is removed. */
  readonly text: string | undefined;
  /** False if the patch changes nothing: then skip the write. */
  readonly changed: boolean;
  readonly section: Section | undefined;
}

/**
 * The content of one key of a ConfigMap after `operations`. Throws ProblemError if the key is invalid or the ConfigMap
 * would exceed 1 MiB (the message names key and sizes), PatchError if the patch does not apply.
 */
export function patchConfigMapKey(edit: KeyEdit): ConfigWrite {
  const before = readCurrentSection(edit);
  const section = patchSection(before, edit.operations, edit.configMapSection);
  const changed = canonicalJson(before) !== canonicalJson(section);
  if (!changed) return { key: edit.key, text: member(edit.data, edit.key), changed, section };
  // Removing a key cannot make the data too large.
  if (section === undefined) return { key: edit.key, text: undefined, changed, section };
  const text = toYaml(section);
  const problem = findSizeProblem(edit.file, { ...edit.data, [edit.key]: text }, edit.key);
  if (problem !== undefined) throw new ProblemError(problem);
  // Never write what the operator cannot read again: the ConfigMap of all modules would become invalid.
  parseDocument(text, edit.file, edit.key);
  return { key: edit.key, text, changed, section };
}

/**
 * A section with a hook's patch applied. For a section of the overlay, `configMapSection` is the ConfigMap's: the patch
 * applies to both merged, as the hook sees them, and the overlay keeps only the difference.
 */
function patchSection(
  section: Section | undefined,
  operations: readonly PatchOperation[],
  configMapSection: Section | undefined,
): Section | undefined {
  const patched = applyJsonPatch(merge(configMapSection, section) as Section | undefined, operations);
  if (configMapSection === undefined) return patched;
  return diffForOverlay(configMapSection, patched ?? {}) as Section | undefined;
}

/** The layers of a section that change while the operator runs. */
export type Sections = Pick<SectionInput, "config" | "overlay" | "sources">;

/** The sections as they will be after a config patch, to validate it before it is saved: in the overlay (`isOverlaid`) or in the ConfigMap. */
export function patchSections(
  { config, overlay }: Sections,
  operations: readonly PatchOperation[],
  isOverlaid: boolean,
): Sections {
  if (operations.length === 0) return { config, overlay };
  if (!isOverlaid) return { config: applyJsonPatch(config, operations), overlay };
  return { config, overlay: patchSection(overlay, operations, config ?? {}) };
}

/** Reads the section to patch from the text of its key; undefined if there is none. Throws ProblemError if it cannot be patched. */
function readCurrentSection(edit: KeyEdit): Section | undefined {
  const text = member(edit.data, edit.key);
  if (text === undefined) return undefined;
  const { file } = edit;
  const { value } = parseDocument(text, file, edit.key);
  if (edit.key === GLOBAL && value !== null && !isJsonObject(value)) {
    throw new ProblemError({ file, key: edit.key, message: "must be a map" });
  }
  const { section, enabled } = readSection(value, file, edit.key);
  // `false` in place of the section is a flag.
  if (enabled === undefined) return section ?? {};
  const remedy = `write ${edit.key}Enabled: "false" instead`;
  const message = "a section that is false cannot be patched";
  throw new ProblemError({ file, key: edit.key, message, remedy });
}

/** The problem of data too large for the API server; undefined if they fit. The message names the key `patchedKey`, by default the largest. */
export function findSizeProblem(
  file: string,
  data: Readonly<Record<string, string>>,
  patchedKey?: string,
): Problem | undefined {
  const size = Object.values(data).reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  if (size <= CONFIG_MAP_LIMIT) return undefined;
  const key = patchedKey ?? findLargestKey(data);
  const [kind] = file.split(" ");
  const message = `would have ${Buffer.byteLength(member(data, key) ?? "")} bytes, and the whole ${kind} ${size} of at most ${CONFIG_MAP_LIMIT}`;
  const remedy = "keep large values elsewhere, e.g. in a Secret that the hook reads";
  return { file, key, message, remedy };
}

function findLargestKey(data: Readonly<Record<string, string>>): string {
  const largestFirst = Object.entries(data).toSorted(
    ([, a], [, b]) => Buffer.byteLength(b) - Buffer.byteLength(a),
  );
  return largestFirst[0]?.[0] ?? "";
}

/** The smallest overlay that, merged over `below`, gives `wanted`: changed leaves, and null for removed members. Undefined if nothing differs. */
export function diffForOverlay(below: Json, wanted: Json): Json | undefined {
  if (canonicalJson(below) === canonicalJson(wanted)) return undefined;
  if (!isJsonObject(below) || !isJsonObject(wanted)) return wanted;
  const overlay: JsonObject = {};
  for (const key of new Set([...Object.keys(below), ...Object.keys(wanted)])) {
    const memberBelow = member(below, key);
    const wantedMember = member(wanted, key) ?? null;
    const difference = memberBelow === undefined ? wantedMember : diffForOverlay(memberBelow, wantedMember);
    if (difference !== undefined) setMember(overlay, key, difference);
  }
  return overlay;
}
