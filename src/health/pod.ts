/** The rule of kstatus for Pods. */

import { isJsonObject, member } from "../model/index.ts";
import type { Json, JsonObject } from "../model/index.ts";
import { textAt, UnreadableError } from "./fields.ts";
import { CURRENT, failed, has, inProgress } from "./rule.ts";
import type { Facts, Judgement, Rule } from "./rule.ts";

/** A Pod that ended is done, however it ended. */
export const pod: Rule = (facts) => {
  const phase = textAt(facts.object, "status.phase");
  if (phase === "Succeeded" || phase === "Failed") return CURRENT;
  if (phase === "Running") return runningPod(facts);
  if (phase === "Pending") return pendingPod(facts);
  if (phase === "") return inProgress("PodNotObserved", "was not looked at yet");
  throw new UnreadableError(`status.phase is ${phase}`);
};

function runningPod({ object, conditions }: Facts): Judgement {
  if (has(conditions, "Ready", "True")) return CURRENT;
  const crashing = crashLooping(object);
  if (crashing.length === 0) return inProgress("PodRunningNotReady", "runs, but is not ready");
  return failed("ContainerCrashLooping", `crashes again and again: ${crashing.join(", ")}`);
}

/** How long a Pod may wait for a node. */
const SCHEDULE_WINDOW_MS = 15_000;

function pendingPod({ object, conditions, now }: Facts): Judgement {
  const unscheduled = conditions.find(({ type, status }) => type === "PodScheduled" && status === "False");
  if (unscheduled?.reason !== "Unschedulable") return inProgress("PodPending", "is pending");
  const created = timeOf(textAt(object, "metadata.creationTimestamp"));
  if (now - SCHEDULE_WINDOW_MS < created) return inProgress("PodNotScheduled", "has no node yet");
  return failed("PodUnschedulable", unscheduled.message || "no node takes it");
}

/** A time in RFC 3339, in ms since the epoch; long ago where it is none. */
function timeOf(text: string): number {
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/.test(text);
  const time = isTime ? Date.parse(text) : NaN;
  return Number.isNaN(time) ? -Infinity : time;
}

/** Names of containers in CrashLoopBackOff. */
function crashLooping({ status }: JsonObject): string[] {
  const list = isJsonObject(status) ? member(status, "containerStatuses") : undefined;
  if (list === undefined) return [];
  if (!Array.isArray(list)) throw new UnreadableError("status.containerStatuses is no list");
  return list.flatMap((each) => {
    const container = readable(each);
    if (!Object.hasOwn(container, "name")) return [];
    const name = readableText(container["name"]);
    const state = Object.hasOwn(container, "state") ? readable(container["state"]) : {};
    const waiting = Object.hasOwn(state, "waiting") ? readable(state["waiting"]) : {};
    const reason = Object.hasOwn(waiting, "reason") ? readableText(waiting["reason"]) : "";
    return reason === "CrashLoopBackOff" ? [name] : [];
  });
}

function readable(value: Json | undefined): JsonObject {
  if (!isJsonObject(value)) throw new UnreadableError("status.containerStatuses cannot be read");
  return value;
}

function readableText(value: Json | undefined): string {
  if (typeof value !== "string") throw new UnreadableError("status.containerStatuses cannot be read");
  return value;
}
