/** Validates the patches of values that a hook leaves (docs/VALUES.md, "Patches"). */

import { checkPatched, refusePatch } from "../../state/index.ts";
import type { ValuesView } from "../../state/index.ts";
import type { HookOutput } from "../../hooks/index.ts";
import type { Hook } from "../../model/index.ts";
import { forStorage, parsePatch } from "../../values/index.ts";
import type { ParsedPatch, PatchOperation } from "../../values/index.ts";

/** Patches of one run that passed every check. */
export interface JudgedPatches {
  readonly config: readonly PatchOperation[];
  readonly values: readonly PatchOperation[];
  /** Flags of modules as a global hook set them; undefined = removed. */
  readonly flags: ReadonlyMap<string, boolean | undefined>;
  readonly warnings: readonly string[];
}

/**
 * Parses both patch files, applies them to copies, and validates the result: config patches against the config
 * schema, values patches against the values schema. Throws with one message when anything is wrong; nothing has
 * taken effect then.
 */
export function judgePatches(
  values: ValuesView,
  run: { hook: Hook; key: string; output: HookOutput },
): JudgedPatches {
  const { key, output } = run;
  const rules =
    run.hook.module === undefined
      ? ({ kind: "global" } as const)
      : ({ kind: "module", valuesKey: key } as const);
  const config = parsePatch(output.configPatchText, rules);
  const own = parsePatch(output.valuesPatchText, rules);
  judgeConfig(values, key, config);
  const stored = judgeValues(values, key, { config, own });
  return {
    config: config.operations,
    values: stored,
    flags: new Map([...config.flags, ...own.flags]),
    warnings: [...config.warnings, ...own.warnings],
  };
}

function judgeConfig(values: ValuesView, key: string, { operations }: ParsedPatch): void {
  if (operations.length > 0) checkPatched(values, key, values.patchedSections(key, operations));
}

function judgeValues(
  values: ValuesView,
  key: string,
  patches: { config: ParsedPatch; own: ParsedPatch },
): readonly PatchOperation[] {
  const { config, own } = patches;
  if (own.operations.length === 0) return [];
  const sections = values.patchedSections(key, config.operations);
  // Strict against what the hook saw: removing what is not there is an error while the patch is fresh.
  const seen = values.mergeSections(key, sections);
  const stored = forStorage(seen.values, own.operations);
  const merged = values.merge(key, { ...sections, patches: [...values.patches(key), ...stored] });
  refusePatch("values patch", key, values.schemas(key).validateValues(merged.values));
  return stored;
}
