/** Judges the patches of values that a hook leaves, before anything takes effect (docs/VALUES.md, "Patches"). */

import type { KnownSecrets } from "../../lib/index.ts";
import { GLOBAL } from "../../model/index.ts";
import { patchedSections } from "../config/config-write.ts";
import type { Sections } from "../config/config-write.ts";
import { effective } from "../layers.ts";
import type { Effective, SectionInput } from "../layers.ts";
import { violationId } from "../schema/validator.ts";
import type { Violation } from "../schema/validator.ts";
import { forStorage } from "./apply-patch.ts";
import { parsePatches } from "./parse-patch.ts";
import type { PatchOperation, PatchRules, PatchTexts } from "./parse-patch.ts";

/** The section that is patched, as it is in force. */
export interface PatchTarget {
  readonly key: string;
  readonly layers: SectionInput;
  readonly merged: Effective;
  /** Whether patches of the configuration are saved in the overlay. */
  readonly isOverlaid: boolean;
  /** Learns what is secret in values that are merged to be judged. */
  readonly secrets: KnownSecrets | undefined;
}

/** Patches of one run that passed every check. */
export interface JudgedPatches {
  readonly config: readonly PatchOperation[];
  readonly values: readonly PatchOperation[];
  /** Flags of modules as a global hook set them; undefined = removed. */
  readonly flags: ReadonlyMap<string, boolean | undefined>;
  readonly warnings: readonly string[];
}

/**
 * Parses both patch files, applies them to copies, and validates the result: config patches against the config schema,
 * values patches against the values schema. Throws with one message when anything is wrong.
 */
export function judgePatches(target: PatchTarget, texts: PatchTexts): JudgedPatches {
  const { key, layers, isOverlaid } = target;
  const rules: PatchRules = key === GLOBAL ? { kind: "global" } : { kind: "module", valuesKey: key };
  const { config, values: own } = parsePatches(texts, rules);
  const saved = patchedSections(layers, config.operations, isOverlaid);
  if (config.operations.length > 0) checkPatched(target, saved);
  return {
    config: config.operations,
    values: own.operations.length === 0 ? [] : judgeValues(target, saved, own.operations),
    flags: new Map([...config.flags, ...own.flags]),
    warnings: [...config.warnings, ...own.warnings],
  };
}

function judgeValues(
  target: PatchTarget,
  saved: Sections,
  operations: readonly PatchOperation[],
): readonly PatchOperation[] {
  const { key, layers } = target;
  // Strict against what the hook saw: removing what is not there is an error while the patch is fresh.
  const stored = forStorage(mergedWith(target, saved).values, operations);
  const after = mergedWith(target, { ...saved, patches: [...(layers.patches ?? []), ...stored] });
  refuse("values patch", key, layers.schemas.validateValues(after.values));
  return stored;
}

/** Throws when a hook's config patch, which leads to these sections, breaks what was valid before. */
export function checkPatched(target: PatchTarget, sections: Sections): void {
  const { key, layers, merged } = target;
  const before = new Set(layers.schemas.validateConfig(merged.config).map(violationId));
  const found = layers.schemas.validateConfig(mergedWith(target, sections).config);
  const violations = found.filter((each) => !before.has(violationId(each)));
  refuse("config values patch", key, violations);
}

function mergedWith({ layers, merged, secrets }: PatchTarget, change: Partial<SectionInput>): Effective {
  const names = Object.keys(change) as (keyof SectionInput)[];
  if (names.every((name) => change[name] === layers[name])) return merged;
  const made = effective({ ...layers, ...change });
  secrets?.learn(made.values, layers.schemas.secretPaths);
  return made;
}

/** Throws with all violations that a hook's patch causes. */
function refuse(what: string, key: string, violations: readonly Violation[]): void {
  if (violations.length === 0) return;
  const all = violations.map(({ path, message }) => `${path}: ${message}`).join("; ");
  throw new Error(`${what} makes ${key} invalid: ${all}`);
}
