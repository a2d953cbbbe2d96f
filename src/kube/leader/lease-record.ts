/** The content of a Lease, and how long a holder's lasts. */

import { type LeaseSpec, microTime } from "../objects.ts";

/** The spec that a holder writes at `now`; a new holder counts a transition. */
export function heldSpec(
  holder: string,
  before: LeaseSpec | undefined,
  at: { now: number; durationMs: number },
): LeaseSpec {
  const mine = before?.holderIdentity === holder;
  const renewTime = microTime(at.now);
  const transitions = before?.leaseTransitions ?? 0;
  return {
    holderIdentity: holder,
    leaseDurationSeconds: Math.max(1, Math.ceil(at.durationMs / 1000)),
    acquireTime: mine ? (before?.acquireTime ?? renewTime) : renewTime,
    renewTime,
    leaseTransitions: mine || before === undefined ? transitions : transitions + 1,
  };
}

/** The spec that a holder leaves behind: free for anybody. */
export function freeSpec(before: LeaseSpec | undefined, now: number): LeaseSpec {
  return { ...before, holderIdentity: "", leaseDurationSeconds: 1, renewTime: microTime(now) };
}

/** Measures another holder's renewals by the own clock only; clocks of two machines are never compared. */
export class ObservedLease {
  #seen = "";
  #since = 0;

  /** Notes the record read at `now` (monotonic); milliseconds until it may be taken over, 0 = now. */
  remainingMs(spec: LeaseSpec, now: number): number {
    const record = JSON.stringify([spec.holderIdentity, spec.acquireTime, spec.renewTime]);
    if (record !== this.#seen) {
      this.#seen = record;
      this.#since = now;
    }
    return Math.max(0, this.#since + (spec.leaseDurationSeconds ?? 0) * 1000 - now);
  }
}
