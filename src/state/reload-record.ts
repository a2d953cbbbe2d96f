/** The reload of all modules as it is recorded, and every change of what is recorded of the operator. */

import type { Cause } from "../model/index.ts";
import { NO_FILES, type OperatorState } from "./view.ts";

/** Phase of *reload all modules*; `turns` only where modules run in queues of their own. */
export type ReloadPhase = "idle" | "beforeAll" | "discovery" | "modules" | "turns" | "afterAll";

/** Digests of everything that a reload depends on. */
export interface Coverage {
  /** `global` section and flags as the ConfigMap has them, and what keeps releases. */
  readonly globalConfig: string;
  /** Merged global values and merged flags; undefined until discovery. */
  readonly globals: string | undefined;
}

/** The reload under way, or the last one. */
export interface ReloadRecord {
  readonly phase: ReloadPhase;
  /** Why it was started. */
  readonly cause: Cause | undefined;
  readonly startedAt: number | undefined;
  readonly finishedAt: number | undefined;
  /** A step of it has failed and is tried again. */
  readonly heldUp: boolean;
  /** Modules still to run in it. */
  readonly remaining: readonly string[];
  /** What it took into account; undefined before the first one. */
  readonly covered: Coverage | undefined;
  /** Reloads in a row that their own hooks caused, by globals or files (guard against a livelock). */
  readonly rounds: number;
  /** The last one was one too many of these: the next one is a retry. */
  readonly isUnstable: boolean;
  /** Digest of the modules' files at its begin, where changed files are why it runs. */
  readonly content: string | undefined;
}

type Change = Partial<OperatorState>;

/** A reload begins; what it takes into account is noted before it reads anything. */
export function begun(
  { reload, requestedToken, handledToken }: OperatorState,
  begin: { readonly cause: Cause; readonly startedAt: number; readonly globalConfig: string },
): Change {
  const { cause, startedAt, globalConfig } = begin;
  const covered = { globalConfig, globals: undefined };
  return {
    secondLook: false,
    movedFiles: NO_FILES,
    removing: [],
    handledToken: requestedToken ?? handledToken,
    reload: {
      ...reload,
      phase: "beforeAll",
      cause,
      startedAt,
      finishedAt: undefined,
      covered,
      heldUp: false,
      isUnstable: false,
      content: undefined,
    },
  };
}

/** The reload under way takes this of what is in force into account, too. */
export function covering(
  { covered }: ReloadRecord,
  what: keyof Coverage,
  now: Coverage,
): Pick<ReloadRecord, "covered"> {
  const before = covered ?? { globalConfig: now.globalConfig, globals: undefined };
  return { covered: { ...before, [what]: now[what] } };
}

/** What was taken into account before the operator's own write to the ConfigMap still is after it. */
export function following(reload: ReloadRecord, before: string, now: string): ReloadRecord {
  if (reload.covered?.globalConfig !== before) return reload;
  return { ...reload, covered: { ...reload.covered, globalConfig: now } };
}

/** The reload is over; with the first one, so is the start. */
export function ended({ boot, reload }: OperatorState, rounds: number, finishedAt: number): Change {
  return {
    boot: boot === "converging" ? "running" : boot,
    reload: { ...reload, phase: "idle", finishedAt, remaining: [], rounds },
  };
}

/** Files of these modules, or more than those of single modules, are another ones than were read. */
export function filesMoved({ movedFiles }: OperatorState, moved: OperatorState["movedFiles"]): Change {
  return { movedFiles: moved === "all" || movedFiles === "all" ? "all" : movedFiles.union(moved) };
}

/** Files of a module are not to be read yet; undefined where they were not to be read anyway. */
export function filesForgotten({ movedFiles }: OperatorState, name: string): Change | undefined {
  if (movedFiles === "all" || !movedFiles.has(name)) return undefined;
  return { movedFiles: movedFiles.difference(new Set([name])) };
}
