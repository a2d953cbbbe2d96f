/** What keeps a Pod from being ready, in words: the most telling of all that it says. */

import { conditionOf, objectOf, objectsIn, textOf } from "../model/index.ts";
import type { JsonObject } from "../model/index.ts";
import { intAt } from "./rule.ts";

/** What keeps a Pod from being ready. */
export interface PodTrouble {
  /** E.g. `CrashLoopBackOff: exit code 1`. */
  readonly text: string;
  /** The more it tells, the higher. */
  readonly rank: number;
  /** It has been tried often enough: it will not come right by itself. */
  readonly isHopeless: boolean;
}

/** The trouble of a Pod, its name, and the revision of the workload that it was made from. */
export interface NamedTrouble extends PodTrouble {
  readonly name: string;
  readonly revision: string | undefined;
}

/** A container that crashed more often than this is not going to start. */
const MOST_RESTARTS = 3;
/** How much each finding tells. */
const RANK = { crashes: 5, refused: 4, ended: 3, unscheduled: 2, unready: 1, starts: 0 };

/** Whether it tells of a container that does not run, and not only of a Pod that is not ready yet. */
export function isBroken({ rank }: PodTrouble): boolean {
  return rank >= RANK.ended;
}

/** Undefined where a Pod is ready, has succeeded, or says nothing yet. */
export function podTrouble(pod: JsonObject): PodTrouble | undefined {
  const status = objectOf(pod["status"]);
  if (status["phase"] === "Succeeded" || conditionOf(pod, "Ready", "True") !== undefined) return undefined;
  const containers = [
    ...objectsIn(status["initContainerStatuses"]),
    ...objectsIn(status["containerStatuses"]),
  ];
  const troubles = [...containers.flatMap(containerTrouble), ...podItself(pod, status)];
  return troubles.toSorted((a, b) => b.rank - a.rank)[0];
}

function containerTrouble(container: JsonObject): PodTrouble[] {
  const state = objectOf(container["state"]);
  const waiting = objectOf(state["waiting"]);
  const reason = textOf(waiting["reason"]) ?? "";
  if (reason === "CrashLoopBackOff") {
    const end = endOf(objectOf(objectOf(container["lastState"])["terminated"]));
    const isHopeless = intAt(container, "restartCount", 0) > MOST_RESTARTS;
    return [{ text: [reason, ...end].join(": "), rank: RANK.crashes, isHopeless }];
  }
  if (/Err|BackOff|Invalid|Never/.test(reason)) return [trouble(reason, waiting["message"], RANK.refused)];
  const [end] = endOf(objectOf(state["terminated"]));
  if (end !== undefined) return [trouble(end, undefined, RANK.ended)];
  // It waits for a volume, a network, or the containers before it: events of the Pod say which.
  return reason === "" ? [] : [trouble(reason, waiting["message"], RANK.starts)];
}

/** How a container ended, unless it succeeded. */
function endOf(terminated: JsonObject): string[] {
  const { exitCode, reason } = terminated;
  if (typeof exitCode !== "number" || exitCode === 0) return [];
  const why = typeof reason === "string" && reason !== "Error" ? ` (${reason})` : "";
  return [`exit code ${exitCode}${why}`];
}

function podItself(pod: JsonObject, status: JsonObject): PodTrouble[] {
  if (status["phase"] === "Failed")
    return [trouble(textOf(status["reason"]) ?? "Failed", status["message"], RANK.ended)];
  const unscheduled = conditionOf(pod, "PodScheduled", "False");
  if (unscheduled !== undefined)
    return [
      trouble(textOf(unscheduled["reason"]) ?? "Unschedulable", unscheduled["message"], RANK.unscheduled),
    ];
  const unready = conditionOf(pod, "Ready", "False");
  return unready === undefined || status["phase"] !== "Running"
    ? []
    : [trouble("not ready", unready["message"], RANK.unready)];
}

function trouble(reason: string, message: unknown, rank: number): PodTrouble {
  const why = textOf(message) ?? "";
  return { text: why === "" ? reason : `${reason}: ${why}`, rank, isHopeless: false };
}
