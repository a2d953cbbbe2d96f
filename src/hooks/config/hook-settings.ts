/** Reads `settings` of a hook's configuration (docs/HOOKS.md, "Rate limits"). */

import { STRING, object } from "../../bindings/index.ts";
import type { Complain } from "../../bindings/index.ts";
import { parseDuration } from "../../lib/index.ts";
import type { HookSettings, Json } from "../../model/index.ts";

export const SETTINGS = object({
  executionMinInterval: STRING,
  executionMinPeriod: STRING,
  executionBurst: { kind: "integer" },
});

interface RawSettings {
  executionMinInterval?: string;
  executionMinPeriod?: string;
  executionBurst?: number;
}

/** `settings`: a token bucket over the hook's runs; each field is optional. */
export function hookSettings(settings: Json | undefined, complain: Complain): HookSettings | undefined {
  if (settings === undefined) return undefined;
  // The form was checked before.
  const raw = settings as unknown as RawSettings;
  return { minIntervalMs: minInterval(raw, complain), burst: burstOf(raw, complain) };
}

function minInterval({ executionMinInterval, executionMinPeriod }: RawSettings, complain: Complain): number {
  if (executionMinInterval !== undefined && executionMinPeriod !== undefined) {
    complain("settings.executionMinPeriod is another word for executionMinInterval: give only one");
  }
  const text = executionMinInterval ?? executionMinPeriod ?? "0";
  const milliseconds = parseDuration(text) ?? -1;
  if (milliseconds < 0) {
    const spelling = executionMinInterval === undefined ? "executionMinPeriod" : "executionMinInterval";
    complain(`settings.${spelling} is invalid: "${text}" is no duration like 3s, 500ms, 1m30s`);
  }
  return milliseconds;
}

function burstOf({ executionBurst = 1 }: RawSettings, complain: Complain): number {
  if (executionBurst < 0 || !Number.isInteger(executionBurst)) {
    complain(`settings.executionBurst is invalid: ${executionBurst} is no whole number from 0 on`);
  }
  return Math.max(executionBurst, 1);
}
