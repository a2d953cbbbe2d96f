import { GLOBAL } from "../state/index.ts";
import type { ValuesStore } from "../state/index.ts";
import type { Hook } from "../model/index.ts";
import { applyPatch, forStorage, parsePatch } from "../values/index.ts";
import type { ParsedPatch, PatchOperation, Violation } from "../values/index.ts";
import type { HookLeftovers } from "./hands.ts";

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
 * schema, values patches against the values schema (VALUES "Validation"). Throws with one message when anything is
 * wrong; nothing has taken effect then.
 */
export function judgePatches(
  values: ValuesStore,
  run: { hook: Hook; key: string; left: HookLeftovers },
): JudgedPatches {
  const { key, left } = run;
  const rules =
    run.hook.module === undefined
      ? ({ kind: "global" } as const)
      : ({ kind: "module", valuesKey: key } as const);
  const config = parsePatch(left.configPatch, rules);
  const own = parsePatch(left.valuesPatch, rules);
  judgeConfig(values, key, config);
  const stored = judgeValues(values, key, { config, own });
  return {
    config: config.operations,
    values: stored,
    flags: new Map([...config.flags, ...own.flags]),
    warnings: [...config.warnings, ...own.warnings],
  };
}

function judgeConfig(values: ValuesStore, key: string, patch: ParsedPatch): void {
  if (patch.operations.length === 0) return;
  const section = applyPatch(values.configSection(key), patch.operations);
  const merged = values.merge(key, values.patches(key), section);
  refuse("config values patch", key, values.schemas(key).validateConfig(merged.config));
}

function judgeValues(
  values: ValuesStore,
  key: string,
  patches: { config: ParsedPatch; own: ParsedPatch },
): readonly PatchOperation[] {
  const { config, own } = patches;
  if (own.operations.length === 0) return [];
  const section =
    config.operations.length === 0
      ? values.configSection(key)
      : applyPatch(values.configSection(key), config.operations);
  // Strict against what the hook saw: removing what is not there is an error while the patch is fresh.
  const seen =
    config.operations.length === 0 ? values.merged(key) : values.merge(key, values.patches(key), section);
  const stored = forStorage(seen.values, own.operations);
  const merged = values.merge(key, [...values.patches(key), ...stored], section);
  refuse("values patch", key, values.schemas(key).validateValues(merged.values));
  return stored;
}

function refuse(what: string, key: string, violations: readonly Violation[]): void {
  if (violations.length === 0) return;
  const name = key === GLOBAL ? "global" : key;
  throw new Error(
    `${what} makes ${name} invalid: ${violations.map((each) => `${each.path}: ${each.message}`).join("; ")}`,
  );
}
