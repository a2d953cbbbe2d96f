/** Judges an object by its own status, by the rules of kstatus. */

import type { JsonObject } from "../model/index.ts";
import { conditionsOf, generationIn, memberOf, textAt, UnreadableError } from "./fields.ts";
import type { StatusCondition } from "./fields.ts";
import { ruleOf } from "./kinds.ts";
import { CURRENT, failed, inProgress } from "./rule.ts";
import type { Judgement } from "./rule.ts";

/**
 * What kstatus (`sigs.k8s.io/cli-utils` 0.37) makes of an object; the messages are our own. Where the library answers
 * with an error, the status is Unknown. Never throws, whatever the object holds. `now` is in ms since the epoch.
 */
export function judgeObject(object: JsonObject, now: number): Judgement {
  try {
    return judge(object, now);
  } catch (error) {
    if (!(error instanceof UnreadableError)) throw error;
    return { status: "Unknown", reason: "Unreadable", message: error.message };
  }
}

/** The first rule that applies: deletion, generation, standard conditions, the kind's own, Ready. */
function judge(object: JsonObject, now: number): Judgement {
  const early = terminating(object) ?? unobserved(object);
  if (early !== undefined) return early;
  const conditions = conditionsOf(object);
  const standard = standardCondition(conditions);
  if (standard !== undefined) return standard;
  const rule = ruleOf(textAt(object, "apiVersion"), textAt(object, "kind"));
  return rule === undefined ? byReady(conditions) : rule({ object, conditions, now });
}

function terminating(object: JsonObject): Judgement | undefined {
  const since = memberOf(object["metadata"], "deletionTimestamp", "metadata");
  if (since === undefined || since === "") return undefined;
  if (typeof since !== "string") throw new UnreadableError("metadata.deletionTimestamp is no text");
  return { status: "Terminating", reason: "Terminating", message: "is being deleted" };
}

/** Ahead of the generation counts as well: it is of another object, or of a restored one. */
function unobserved(object: JsonObject): Judgement | undefined {
  const generation = generationIn(object, "metadata", "generation");
  if (generation === undefined) return undefined;
  const observed = generationIn(object, "status", "observedGeneration");
  if (observed === undefined || observed === generation) return undefined;
  const message = `its controller has seen generation ${observed}, not ${generation}`;
  return inProgress("LatestGenerationNotObserved", message);
}

function standardCondition(conditions: readonly StatusCondition[]): Judgement | undefined {
  const found = conditions.find(
    ({ type, status }) => status === "True" && (type === "Reconciling" || type === "Stalled"),
  );
  if (found === undefined) return undefined;
  return found.type === "Stalled" ? failed(found.reason, told(found)) : inProgress(found.reason, told(found));
}

function byReady(conditions: readonly StatusCondition[]): Judgement {
  const ready = conditions.find(
    ({ type, status }) => type === "Ready" && ["True", "False", "Unknown"].includes(status),
  );
  if (ready === undefined || ready.status === "True") return CURRENT;
  return inProgress(ready.reason, told(ready));
}

function told({ type, status, reason, message }: StatusCondition): string {
  return message || `${type} is ${status}${reason === "" ? "" : ` (${reason})`}`;
}
