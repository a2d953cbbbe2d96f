/** Assesses Argo Rollouts, whose `status.observedGeneration` is a string, which kstatus cannot read. */

import type { JsonObject } from "../model/index.ts";
import { groupKindOf } from "./assess.ts";
import {
  CURRENT,
  createFailed,
  createInProgress,
  readInt,
  PAUSED,
  readText,
  type Assessment,
} from "./rule.ts";

/** Assesses a Rollout by `status.phase`; undefined for other kinds, and for a Rollout that is being deleted. */
export function assessRollout(object: JsonObject): Assessment | undefined {
  if (groupKindOf(object) !== "argoproj.io/Rollout" || readText(object, "metadata.deletionTimestamp") !== "")
    return undefined;
  const generation = String(readInt(object, "metadata.generation", 0));
  const observed = readText(object, "status.observedGeneration", "none");
  const lag = `its controller has seen generation ${observed}, not ${generation}`;
  if (observed !== generation) return createInProgress("LatestGenerationNotObserved", lag);
  const phase = readText(object, "status.phase", "Progressing");
  const message = readText(object, "status.message", `its phase is ${phase}`);
  if (phase === "Healthy") return CURRENT;
  if (phase === "Degraded") return createFailed(phase, message);
  return createInProgress(phase === "Paused" ? PAUSED : phase, message);
}
