/** The result of a child process. */

import { formatDuration } from "../../lib/index.ts";
import type { Exit } from "./child.ts";
import type { EndReason } from "./group.ts";
import type { Usage } from "../reaper.ts";

export type Stream = "stdout" | "stderr";
export type RunOutcome = "succeeded" | "failed" | "timedOut" | "cancelled" | "notStarted";

/** How a run ended; success and every kind of failure have this one form. */
export interface RunResult {
  readonly outcome: RunOutcome;
  /** Undefined when a signal ended it, or it was never started. */
  readonly exitCode?: number;
  /** E.g. `SIGKILL`. */
  readonly signal?: string;
  /** The first bytes of stdout, up to the request's limit. */
  readonly stdout: string;
  readonly stdoutTruncated: boolean;
  /** The last bytes of stderr, up to the request's limit. */
  readonly stderr: string;
  /** Wall time from the start to the end of the leading process and its output. */
  readonly durationMs: number;
  /** CPU time and peak memory, where they are known. */
  readonly usage?: Usage;
  /** One line for people: `succeeded`, `exit code 3: <last line of stderr>`, `timed out after 5s` … */
  readonly message: string;
}

/** What is known when a run has ended. */
export interface Ended {
  readonly exit: Exit;
  readonly reason: EndReason | undefined;
  readonly timeoutMs: number | undefined;
  readonly durationMs: number;
  readonly stdout: string;
  readonly stdoutTruncated: boolean;
  readonly stderr: string;
  /** Why it was never started, for people. */
  readonly startProblem: string | undefined;
}

const MESSAGE_LIMIT = 300;

/** The only place that makes results. */
export function toResult(ended: Ended): RunResult {
  const { exit, stdout, stdoutTruncated, stderr, durationMs } = ended;
  return {
    outcome: outcomeOf(ended),
    ...(exit.kind === "exited" && exit.code !== undefined ? { exitCode: exit.code } : {}),
    ...(exit.kind === "exited" && exit.signal !== undefined ? { signal: exit.signal } : {}),
    stdout,
    stdoutTruncated,
    stderr,
    durationMs,
    ...(exit.kind === "exited" && exit.usage !== undefined ? { usage: exit.usage } : {}),
    message: messageOf(ended),
  };
}

function outcomeOf({ exit, reason }: Ended): RunOutcome {
  if (exit.kind === "notStarted") return reason === "cancelled" ? "cancelled" : "notStarted";
  return reason ?? (exit.code === 0 ? "succeeded" : "failed");
}

function messageOf(ended: Ended): string {
  const { exit, reason } = ended;
  if (reason === "timedOut") return `timed out after ${formatDuration(ended.timeoutMs ?? 0)}`;
  if (reason === "cancelled") return "cancelled";
  if (exit.kind === "notStarted") return ended.startProblem ?? exit.error.message;
  if (exit.code === 0) return "succeeded";
  const how = exit.code === undefined ? `ended by ${exit.signal}` : `exit code ${exit.code}`;
  const last = lastLine(ended.stderr);
  return last === "" ? how : `${how}: ${last}`;
}

function lastLine(text: string): string {
  const line = text.trimEnd().split("\n").at(-1)?.trim() ?? "";
  return line.length > MESSAGE_LIMIT ? `${line.slice(0, MESSAGE_LIMIT)}…` : line;
}
