/** What the leader knows of one source. */

import type { Timer } from "../../lib/index.ts";
import { REQUESTED_AT } from "../../model/index.ts";
import type { IModuleSource } from "../../status/index.ts";
import { NOTHING_FOUND, type Findings } from "./source-status.ts";

const LONGEST_TOKEN = 256;

export interface Followed {
  findings: Findings;
  timer: Timer | undefined;
  isRunning: boolean;
  /** A check is due when the one under way ends. */
  isDue: boolean;
  /** uid and generation of the spec that was checked last. */
  checked: string | undefined;
  failures: number;
}

/** A source before its first check. */
export function newFollowed(): Followed {
  return {
    findings: NOTHING_FOUND,
    timer: undefined,
    isRunning: false,
    isDue: false,
    checked: undefined,
    failures: 0,
  };
}

/** The token of the check that a user requests. */
export function tokenOf({ metadata }: IModuleSource): string | undefined {
  return metadata.annotations?.[REQUESTED_AT]?.slice(0, LONGEST_TOKEN);
}
