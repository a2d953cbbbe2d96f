/** Runs a child process from start to end: time limit, output, and the result in one form. */

import type { Readable } from "node:stream";

import { exists, formatDuration, oneLine, systemClock, type Clock, type Timer } from "../lib/index.ts";
import type { Child, ChildHost, Exit, LaunchSpec } from "./child.ts";
import { Ending, pidsLeftInGroup, type EndReason } from "./group.ts";
import { FirstBytes, LastBytes, SlicedLines } from "./output.ts";
import type { Usage } from "./libc.ts";
import { obstacleTo } from "./user-ids/reach.ts";

/** A child process to run. */
export interface RunRequest extends Omit<LaunchSpec, "stdin"> {
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** From SIGTERM to SIGKILL, for the whole process group; default 3000. */
  readonly graceMs?: number | undefined;
  /** Called for each line as it comes; long lines are cut, blank ones dropped (`SlicedLines`). */
  readonly onLine?: ((stream: Stream, line: string) => void) | undefined;
  /** Hides secrets that the child knows, in stderr and the message. Lines are as they come: most may never be read. */
  readonly hide?: ((text: string) => string) | undefined;
  /** Bytes kept of stdout (its beginning); default 1 MiB. */
  readonly stdoutLimit?: number | undefined;
  readonly clock?: Clock | undefined;
}

const STDOUT_LIMIT = 1024 * 1024;
const STDERR_LIMIT = 64 * 1024;
const GRACE_MS = 3000;
/** After the leader's end, its output counts as complete when nothing arrived for this long. */
const QUIET_MS = 100;
/** The output of background processes is read for at most this long. */
const MAX_DRAIN_MS = 1000;

/** Runs one child from start to end, as `Children.run` describes. Never rejects: a failure is a result. */
export async function runChild(request: RunRequest, host: ChildHost): Promise<RunResult> {
  const { clock = systemClock, hide = asIs } = request;
  const startedAt = clock.monotonic();
  const child = host.launch(request);
  const output = collectOutput(child, request, host);
  const { exit, ending } = await waitForEnd(child, request, { clock, host });
  await closeStreams(output.streams, clock);
  await output.flush();
  const left = child.pid === undefined ? [] : await pidsLeftInGroup(child.pid, clock, QUIET_MS);
  const kept = {
    ...(left.length === 0 ? {} : { left }),
    stdout: output.stdout.text(),
    stdoutTruncated: output.stdout.truncated,
    stderr: hide(output.stderr.text()),
    durationMs: clock.monotonic() - startedAt,
  };
  return toResult({ exit, reason: ending?.reason, ...kept }, request);
}

const asIs = (text: string): string => text;

interface Output {
  readonly stdout: FirstBytes;
  readonly stderr: LastBytes;
  readonly streams: readonly Readable[];
  flush(): Promise<unknown>;
}

/** Begins to read the output: keeps the first bytes of stdout and the last of stderr, and passes on the lines. */
function collectOutput(
  child: Child,
  { onLine, stdoutLimit = STDOUT_LIMIT }: RunRequest,
  host: ChildHost,
): Output {
  const report = onLine && ((stream: Stream) => (line: string) => host.callBack(() => onLine(stream, line)));
  const stdout = new FirstBytes(stdoutLimit);
  const stderr = new LastBytes(STDERR_LIMIT);
  const flushes = [
    readStream(child.stdout, stdout, report?.("stdout")),
    readStream(child.stderr, stderr, report?.("stderr")),
  ];
  const streams = [child.stdout, child.stderr].filter((stream) => stream !== undefined);
  return { stdout, stderr, streams, flush: () => Promise.all(flushes.map((flush) => flush())) };
}

/** Keeps output of a stream in `kept` and passes its lines to `onLine`. Returns a function that waits for the last line. */
function readStream(
  stream: Readable | undefined,
  kept: FirstBytes | LastBytes,
  onLine: ((line: string) => void) | undefined,
): () => Promise<void> {
  const lines = stream && onLine && new SlicedLines(stream, onLine);
  stream?.on("data", (chunk: Buffer) => {
    kept.push(chunk);
    lines?.push(chunk);
  });
  // A read error has the same meaning as the end: there is no more output.
  stream?.on("error", () => {});
  return async () => lines?.flush();
}

/** Waits for the leader's end, ending the group on time-out, abort or shutdown. */
async function waitForEnd(
  child: Child,
  request: RunRequest,
  { clock, host }: { readonly clock: Clock; readonly host: ChildHost },
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
  const ended = child.exit.then(async (exit) => {
    timer?.cancel();
    request.signal?.removeEventListener("abort", abort);
    await ending.finish();
    return { exit, ending };
  });
  host.track({ end: (ms) => ending.begin("cancelled", ms), ended });
  return ended;
}

/**
 * Waits for the end of both streams and closes them. A background process may keep them open. Then it closes them after
 * `QUIET_MS` without output, at the latest after `MAX_DRAIN_MS`.
 */
async function closeStreams(streams: readonly Readable[], clock: Clock): Promise<void> {
  const deadline = clock.monotonic() + MAX_DRAIN_MS;
  await Promise.all(streams.map((stream) => waitUntilQuiet(stream, deadline, clock)));
  for (const stream of streams) stream.destroy();
}

/** Resolves when the stream has ended, when it was quiet for `QUIET_MS`, or at `deadline` (monotonic clock). */
function waitUntilQuiet(stream: Readable, deadline: number, clock: Clock): Promise<void> {
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
      // A paused stream is not quiet: `SlicedLines` is still handling its last chunk.
      timer = clock.setTimer(Math.min(QUIET_MS, left), () =>
        stream.isPaused() && clock.monotonic() < deadline ? wait() : finish(),
      );
    };
    stream.on("data", wait).once("end", finish).once("close", finish);
    wait();
  });
}

export type Stream = "stdout" | "stderr";
export type RunOutcome = "succeeded" | "failed" | "timedOut" | "cancelled" | "notStarted";

/** How a run ended, for success and every kind of failure. */
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
  /** Pids of processes that it left in its process group, where there are any. */
  readonly left?: readonly number[];
  /** CPU time and peak memory, where they are known. */
  readonly usage?: Usage | undefined;
  /** One line for people: `succeeded`, `exit code 3: <last line of stderr>`, `timed out after 5s` … */
  readonly message: string;
}

/** How a run ended, and the kept part of its output. */
interface RunEnd extends Pick<RunResult, "left" | "stdout" | "stdoutTruncated" | "stderr" | "durationMs"> {
  readonly exit: Exit;
  readonly reason: EndReason | undefined;
}

/** What was started, as far as messages need it. */
interface StartedCommand {
  readonly file: string;
  readonly uid?: number | undefined;
  readonly cwd: string;
  readonly timeoutMs?: number | undefined;
}

const MESSAGE_LIMIT = 300;

/** The result of a run. A time-out or an abort decides the outcome, whatever the exit code says. */
async function toResult({ exit, reason, ...kept }: RunEnd, started: StartedCommand): Promise<RunResult> {
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
export async function describeEnd(exit: Exit, stderr: string, started: StartedCommand): Promise<string> {
  if (exit.kind === "notStarted") return explainStart(started, exit.error);
  // setpriv and shells report this in different ways.
  const obstacle = started.uid === undefined ? undefined : obstacleTo(started.file);
  if (obstacle !== undefined) return `cannot start ${started.file} under user id ${started.uid}: ${obstacle}`;
  const how = exit.code === undefined ? `ended by ${exit.signal}` : `exit code ${exit.code}`;
  const last = oneLine(stderr.trimEnd().split("\n").at(-1), MESSAGE_LIMIT);
  return last === "" ? how : `${how}: ${last}`;
}

/** Why a child could not be started, with the remedy. */
async function explainStart({ file, cwd }: StartedCommand, error: NodeJS.ErrnoException): Promise<string> {
  if (!(await exists(cwd))) return `cannot start ${file}: its working directory ${cwd} does not exist`;
  return `cannot start ${file}: ${await startErrorText(file, error)}`;
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

/** The cause of a failed start in words; ENOENT may mean the file or the interpreter that its first line names. */
async function startErrorText(file: string, error: NodeJS.ErrnoException): Promise<string> {
  if (error.code !== "ENOENT") return REASONS[error.code ?? ""] ?? error.message;
  if (!file.includes("/")) return "not found on PATH";
  return (await exists(file)) ? 'the interpreter in its "#!" line does not exist' : "no such file";
}
