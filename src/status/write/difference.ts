/** Differences between the status on the server and the wanted one. */

import { sameJson } from "../../lib/index.ts";
import type { Json, JsonObject } from "../../model/index.ts";
import type { Condition, ModuleStatus } from "../models/kinds.ts";

/** One operation of RFC 6902. */
export type PatchStep =
  | { readonly op: "add" | "test"; readonly path: string; readonly value: Json }
  | { readonly op: "remove"; readonly path: string };

/**
 * The patch that turns the status on the server (`from`, undefined = none) into the wanted one, one operation for
 * each top-level field. A JSON patch, because a merge patch cannot set a value to null.
 */
export function statusPatch(from: JsonObject | undefined, to: JsonObject): PatchStep[] {
  if (from === undefined) return [{ op: "add", path: "/status", value: to }];
  const steps: PatchStep[] = [];
  for (const key of Object.keys(from)) {
    if (to[key] === undefined) steps.push({ op: "remove", path: `/status/${key}` });
  }
  for (const [key, value] of Object.entries(to)) {
    if (value !== undefined && !sameJson(from[key], value))
      steps.push({ op: "add", path: `/status/${key}`, value });
  }
  return steps;
}

/**
 * True when two statuses of a waiting module differ only in words and in the progress of helm. Such changes may
 * wait; otherwise a long reload would rewrite every waiting module each time another one has finished.
 */
export function differsInWordsOnly(from: ModuleStatus, to: ModuleStatus): boolean {
  if (from.state !== "Pending" || to.state !== "Pending") return false;
  if (!saysTheSame(from.conditions, to.conditions)) return false;
  return sameJson(besidesWords(from), besidesWords(to));
}

function besidesWords(status: ModuleStatus): JsonObject {
  const { conditions: _conditions, release: _release, requires: _requires, ...rest } = status;
  return rest as unknown as JsonObject;
}

/** Whether two lists of conditions are the same except for their messages. */
function saysTheSame(from: readonly Condition[], to: readonly Condition[]): boolean {
  return from.length === to.length && from.every((each, index) => isLike(each, to[index]));
}

function isLike(a: Condition, b: Condition | undefined): boolean {
  return (
    a.type === b?.type &&
    a.status === b.status &&
    a.reason === b.reason &&
    a.lastTransitionTime === b.lastTransitionTime
  );
}
