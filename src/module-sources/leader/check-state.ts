/** What the leader remembers of one ModuleSource between its checks. */

import type { Timer } from "../../lib/index.ts";
import { REQUESTED_AT } from "../../model/index.ts";
import type { IModuleSource } from "../../status/index.ts";
import { FINDINGS_BEFORE_CHECK, type SourceFindings } from "./source-status.ts";

const MAX_TOKEN_CHARS = 256;

/** Findings of the last check, and when the next one runs. */
export interface CheckState {
  findings: SourceFindings;
  timer: Timer | undefined;
  isRunning: boolean;
  /** Another check was requested while one was running: it starts when the running check ends. */
  isCheckDue: boolean;
  /** uid and generation of the spec that was checked last. */
  checkedSpec: string | undefined;
  /** Checks in a row that failed. */
  failures: number;
}

/** A source before its first check. */
export function newCheckState(): CheckState {
  return {
    findings: FINDINGS_BEFORE_CHECK,
    timer: undefined,
    isRunning: false,
    isCheckDue: false,
    checkedSpec: undefined,
    failures: 0,
  };
}

/** The value of the annotation with which a user requests a check; the status repeats it once the check is done. */
export function readCheckToken({ metadata }: IModuleSource): string | undefined {
  return metadata.annotations?.[REQUESTED_AT]?.slice(0, MAX_TOKEN_CHARS);
}
