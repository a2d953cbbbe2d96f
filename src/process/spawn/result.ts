/** The result of a child process. */

import { stat } from "node:fs/promises";

import { formatDuration, oneLine } from "../../lib/index.ts";
import type { Exit } from "./child.ts";
import type { EndReason } from "./group.ts";
import type { Usage } from "../reaper.ts";

export type Stream = "stdout" | "stderr";
export type RunOutcome = "succeeded" | "failed" | "timedOut" | "cancelled" | "notStarted";

/** How a run ended; success and every kind of failure have this one form. */
export interface RunResult {
  readonly outcome: RunOutcome;
  /** Undefined when a signal ended it, or it was never started. */
  readonly exitCode?: number | undefined;
  /** E.g. `SIGKILL`. */
  readonly signal?: string | undefined;
  /** The first bytes of stdout, up to the request's limit. */
  readonly stdout: string;
  readonly stdoutTruncated: boolean;
  /** The last bytes of stderr, up to the request's limit. */
  readonly stderr: string;
  /** Wall time from the start to the end of the leading process and its output. */
  readonly durationMs: number;
  /** CPU time and peak memory, where they are known. */
  readonly usage?: Usage | undefined;
  /** One line for people: `succeeded`, `exit code 3: <last line of stderr>`, `timed out after 5s` … */
  readonly message: string;
}

/** How a run ended, and what is kept of its output. */
interface Ended extends Pick<RunResult, "stdout" | "stdoutTruncated" | "stderr" | "durationMs"> {
  readonly exit: Exit;
  readonly reason: EndReason | undefined;
}

/** What was started, as far as messages need it. */
interface Started {
  readonly file: string;
  readonly cwd: string;
  readonly timeoutMs?: number | undefined;
}

const MESSAGE_LIMIT = 300;

/** The only place that makes results. */
export async function toResult({ exit, reason, ...kept }: Ended, started: Started): Promise<RunResult> {
  const { code, signal, usage } = exit.kind === "exited" ? exit : {};
  const result = { ...kept, exitCode: code, signal, usage };
  if (reason === "timedOut")
    return {
      ...result,
      outcome: reason,
      message: `timed out after ${formatDuration(started.timeoutMs ?? 0)}`,
    };
  if (reason === "cancelled") return { ...result, outcome: reason, message: reason };
  if (code === 0) return { ...result, outcome: "succeeded", message: "succeeded" };
  const message = await describeEnd(exit, kept.stderr, started);
  return { ...result, outcome: exit.kind === "exited" ? "failed" : exit.kind, message };
}

/** One line for people: why it was never started, or its exit code and the last line of stderr. */
export async function describeEnd(exit: Exit, stderr: string, started: Started): Promise<string> {
  if (exit.kind === "notStarted") return explainStart(started, exit.error);
  const how = exit.code === undefined ? `ended by ${exit.signal}` : `exit code ${exit.code}`;
  const last = oneLine(stderr.trimEnd().split("\n").at(-1), MESSAGE_LIMIT);
  return last === "" ? how : `${how}: ${last}`;
}

/** Why a child could not be started, with the remedy. */
async function explainStart({ file, cwd }: Started, error: NodeJS.ErrnoException): Promise<string> {
  if (!(await exists(cwd))) return `cannot start ${file}: its working directory ${cwd} does not exist`;
  return `cannot start ${file}: ${await reason(file, error)}`;
}

const REASONS: Readonly<Record<string, string>> = {
  EACCES: "permission denied; is it executable (chmod +x), and is the volume not mounted noexec?",
  ENOEXEC: 'the system does not know how to run it; a script needs a first line like "#!/bin/bash"',
  ETXTBSY: "the file is being written just now",
  E2BIG: "the environment or the arguments are too long for the system",
  EAGAIN: "the system allows no more processes (pids limit)",
  ENOMEM: "the system has no memory left for another process",
  EMFILE: "too many files are open in the operator",
  ENFILE: "too many files are open on the machine",
};

async function reason(file: string, error: NodeJS.ErrnoException): Promise<string> {
  if (error.code !== "ENOENT") return REASONS[error.code ?? ""] ?? error.message;
  if (!file.includes("/")) return "not found on PATH";
  return (await exists(file)) ? 'the interpreter in its "#!" line does not exist' : "no such file";
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
