/** Runs a child process from start to end: time limit, output, and the result in one form. */

import type { Readable, Writable } from "node:stream";
import { stat } from "node:fs/promises";

import { formatDuration, oneLine, systemClock, type Clock, type Timer } from "../lib/index.ts";
import { launch, type Child, type Exit } from "./child.ts";
import { Ending, callBack, remember, startsAllowed, type EndReason } from "./children.ts";
import { FirstBytes, LastBytes, LineSplitter } from "./output.ts";
import type { Usage } from "./libc.ts";

/** A child process to run. */
export interface RunRequest {
  /** A path, or a name that is looked up on PATH. */
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** From SIGTERM to SIGKILL, for the whole process group; default 3000. */
  readonly graceMs?: number | undefined;
  /** Called for each line as it comes; long lines are cut, blank ones dropped (`LineSplitter`). */
  readonly onLine?: ((stream: Stream, line: string) => void) | undefined;
  /** Bytes kept of stdout (its beginning); default 1 MiB. */
  readonly stdoutLimit?: number | undefined;
  /** Text for stdin, now or as soon as it is known; /dev/null without it. */
  readonly input?: string | Promise<string> | undefined;
  readonly clock?: Clock | undefined;
}

const NOT_BEGUN: RunResult = {
  outcome: "cancelled",
  stdout: "",
  stdoutTruncated: false,
  stderr: "",
  durationMs: 0,
  message: "cancelled",
};
const STDOUT_LIMIT = 1024 * 1024;
const STDERR_LIMIT = 64 * 1024;
const GRACE_MS = 3000;
/** After the leader's end, its output counts as complete when nothing came for this long. */
const QUIET_MS = 100;
/** A daemon that goes on writing is read for no longer than this. */
const LONGEST_MS = 1000;

/**
 * Runs a child in its own process group and resolves when it has ended; never throws. A time-out or an abort ends
 * the whole group. Processes that the child left in the background do not delay the result, and output takes
 * bounded memory however long it is.
 */
export async function run(request: RunRequest): Promise<RunResult> {
  const clock = request.clock ?? systemClock;
  const startedAt = clock.monotonic();
  if (request.signal?.aborted || !startsAllowed()) return NOT_BEGUN;
  const { input } = request;
  const child = launch({ ...request, stdin: input === undefined ? undefined : "pipe" });
  if (input !== undefined) void feed(child.stdin, input);
  const output = collect(child, request);
  const { exit, ending } = await ended(child, request, clock);
  await drain(output.streams, clock);
  output.flush();
  const kept = {
    stdout: output.stdout.text(),
    stdoutTruncated: output.stdout.truncated,
    stderr: output.stderr.text(),
    durationMs: clock.monotonic() - startedAt,
  };
  return toResult({ exit, reason: ending?.reason, ...kept }, request);
}

async function feed(stdin: Writable | undefined, input: string | Promise<string>): Promise<void> {
  // A child that does not read all of its input is no error: its exit code counts.
  stdin?.on("error", () => {});
  stdin?.end(await input);
}

interface Output {
  readonly stdout: FirstBytes;
  readonly stderr: LastBytes;
  readonly streams: readonly Readable[];
  flush(): void;
}

function collect(child: Child, request: RunRequest): Output {
  const stdout = new FirstBytes(request.stdoutLimit ?? STDOUT_LIMIT);
  const stderr = new LastBytes(STDERR_LIMIT);
  const flushes = [
    listen({ readable: child.stdout, kept: stdout, name: "stdout" }, request.onLine),
    listen({ readable: child.stderr, kept: stderr, name: "stderr" }, request.onLine),
  ];
  const streams = [child.stdout, child.stderr].filter((stream) => stream !== undefined);
  return { stdout, stderr, streams, flush: () => flushes.forEach((flush) => flush()) };
}

interface OutputStream {
  readonly readable: Readable | undefined;
  readonly kept: FirstBytes | LastBytes;
  readonly name: Stream;
}

function listen({ readable, kept, name }: OutputStream, onLine: RunRequest["onLine"]): () => void {
  const lines =
    onLine === undefined ? undefined : new LineSplitter((line) => callBack(() => onLine(name, line)));
  readable?.on("data", (chunk: Buffer) => {
    kept.push(chunk);
    lines?.push(chunk);
  });
  // A read error has the same meaning as the end: there is no more output.
  readable?.on("error", () => {});
  return () => lines?.flush();
}

/** Waits for the leader's end, ending the group on time-out, abort or shutdown. */
async function ended(
  child: Child,
  request: RunRequest,
  clock: Clock,
): Promise<{ exit: Exit; ending: Ending | undefined }> {
  if (child.pid === undefined) return { exit: await child.exit, ending: undefined };
  const ending = new Ending(child.pid, clock);
  const graceMs = request.graceMs ?? GRACE_MS;
  const timer =
    request.timeoutMs === undefined
      ? undefined
      : clock.setTimer(request.timeoutMs, () => ending.begin("timedOut", graceMs));
  const abort = (): void => ending.begin("cancelled", graceMs);
  request.signal?.addEventListener("abort", abort, { once: true });
  const over = child.exit.then(async (exit) => {
    timer?.cancel();
    request.signal?.removeEventListener("abort", abort);
    await ending.finish();
    return { exit, ending };
  });
  remember({ end: (ms) => ending.begin("cancelled", ms), ended: over });
  return over;
}

/**
 * Resolves when both streams have ended; or, where a daemon holds them open, when they have been quiet for a moment
 * or have gone on for too long. Then they are closed.
 */
async function drain(streams: readonly Readable[], clock: Clock): Promise<void> {
  const deadline = clock.monotonic() + LONGEST_MS;
  await Promise.all(streams.map((stream) => drained(stream, deadline, clock)));
  for (const stream of streams) stream.destroy();
}

function drained(stream: Readable, deadline: number, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    if (stream.readableEnded || stream.destroyed) return resolve();
    let timer: Timer | undefined;
    const finish = (): void => {
      timer?.cancel();
      stream.off("data", wait).off("end", finish).off("close", finish);
      resolve();
    };
    const wait = (): void => {
      timer?.cancel();
      const left = deadline - clock.monotonic();
      timer = clock.setTimer(Math.min(QUIET_MS, left), finish);
    };
    stream.on("data", wait).once("end", finish).once("close", finish);
    wait();
  });
}

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
async function toResult({ exit, reason, ...kept }: Ended, started: Started): Promise<RunResult> {
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
