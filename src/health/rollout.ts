/** Assesses Argo Rollouts, whose `status.observedGeneration` is a string, which kstatus cannot read. */

import type { JsonObject } from "../model/index.ts";
import { kindOf } from "./assess.ts";
import { CURRENT, failed, inProgress, intAt, PAUSED, textAt, type Assessment } from "./rule.ts";

/** Assesses a Rollout by `status.phase`; undefined for other kinds, and for a Rollout that is being deleted. */
export function assessRollout(object: JsonObject): Assessment | undefined {
  if (kindOf(object) !== "argoproj.io/Rollout" || textAt(object, "metadata.deletionTimestamp") !== "")
    return undefined;
  const generation = String(intAt(object, "metadata.generation", 0));
  const observed = textAt(object, "status.observedGeneration", "none");
  if (observed !== generation)
    return inProgress(
      "LatestGenerationNotObserved",
      `its controller has seen generation ${observed}, not ${generation}`,
    );
  const phase = textAt(object, "status.phase", "Progressing");
  const message = textAt(object, "status.message", `its phase is ${phase}`);
  if (phase === "Healthy") return CURRENT;
  if (phase === "Degraded") return failed(phase, message);
  return inProgress(phase === "Paused" ? PAUSED : phase, message);
}
