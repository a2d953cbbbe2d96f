/** Ends helm processes that an earlier operator process left. */

import type { Clock } from "../../lib/index.ts";
import { endStrays } from "../../process/index.ts";
import type { Fits } from "../../process/index.ts";

/** Environment variable that marks every helm of this operator with its release. */
export const MARK = "ADDON_OPERATOR_HELM_RELEASE";

const GRACE_MS = 20_000;

function worksOn(mark: string): Fits {
  return (environment) => environment.includes(`${MARK}=${mark}`);
}

/** Ends helm processes that were left over: with SIGTERM, so that they can mark their release, then with SIGKILL. */
export function endLiveHelms(mark: string, clock: Clock, signal?: AbortSignal): Promise<void> {
  return endStrays(worksOn(mark), { clock, graceMs: GRACE_MS, signal });
}

/** The same for all releases of an operator. */
export function endAllHelms(managedBy: string, clock: Clock, signal?: AbortSignal): Promise<void> {
  const ofOperator = `${MARK}=${managedBy}/`;
  const fits: Fits = (environment) => environment.some((each) => each.startsWith(ofOperator));
  return endStrays(fits, { clock, graceMs: GRACE_MS, signal });
}
