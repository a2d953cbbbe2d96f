import { canonicalJson } from "../lib/index.ts";
import type { Json, JsonObject } from "../model/index.ts";
import type { Condition, ModuleStatus } from "./types.ts";

/** One operation of RFC 6902. */
export type PatchStep =
  | { readonly op: "add"; readonly path: string; readonly value: Json }
  | { readonly op: "remove"; readonly path: string };

/**
 * The steps that make the status on the server (`from`, undefined = none) the wanted one, one per top-level
 * field. A JSON patch, because a merge patch cannot say that a value is null.
 */
export function statusPatch(from: JsonObject | undefined, to: JsonObject): PatchStep[] {
  if (from === undefined) return [{ op: "add", path: "/status", value: to }];
  const steps: PatchStep[] = [];
  for (const key of Object.keys(from)) {
    if (to[key] === undefined) steps.push({ op: "remove", path: `/status/${key}` });
  }
  for (const [key, value] of Object.entries(to)) {
    if (value !== undefined && !same(from[key], value))
      steps.push({ op: "add", path: `/status/${key}`, value });
  }
  return steps;
}

/** Whether two JSON values are the same, whatever the order of keys. */
export function same(a: Json | undefined, b: Json | undefined): boolean {
  return a === b || canonicalJson(a) === canonicalJson(b);
}

/**
 * True when two statuses of a waiting module differ only in words and in how far helm is: such changes may wait, or a
 * long reload would re-write every waiting module each time another one has finished.
 */
export function differsInWordsOnly(from: ModuleStatus, to: ModuleStatus): boolean {
  if (from.state !== "Pending" || to.state !== "Pending") return false;
  return canonicalJson(wordless(from)) === canonicalJson(wordless(to));
}

function wordless(status: ModuleStatus): Json {
  const conditions = status.conditions.map((condition: Condition) => ({ ...condition, message: "" }));
  return { ...status, conditions, release: undefined } as unknown as Json;
}
