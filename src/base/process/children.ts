/** The child processes of an operator or of one command: each runs from start to end, with a time limit, and gives its result in one form. */

import type { Readable } from "node:stream";

import { Failures, formatDuration, silentLogger, sleep, systemClock, type Clock, Timers } from "../index.ts";
import { createLauncher } from "./child.ts";
import type { Child, ChildHost, Exit, LaunchSpec, TrackedChild } from "./child.ts";
import { Coprocess, type CoprocessOptions } from "./coprocess.ts";
import { describeExit } from "./exit-message.ts";
import type { Usage } from "./libc.ts";
import { FirstBytes, LastBytes, YieldingLineSplitter } from "./output.ts";
import { GroupTerminator, listPidsLeftInGroup } from "./termination.ts";

/** A child process to run. */
export interface RunRequest extends Omit<LaunchSpec, "stdin"> {
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** From SIGTERM to SIGKILL, for the whole process group; default 3000. */
  readonly graceMs?: number | undefined;
  /** Called for each line as it comes; long lines are cut, blank ones dropped (`YieldingLineSplitter`). */
  readonly onLine?: ((stream: Stream, line: string) => void) | undefined;
  /** Redacts secrets that the child knows, in stderr and the message. Lines are as they come: most may never be read. */
  readonly redact?: ((text: string) => string) | undefined;
  /** Bytes kept of stdout (its beginning); default 1 MiB. */
  readonly stdoutLimit?: number | undefined;
  readonly clock?: Clock | undefined;
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
  /** The first line of stdout, from 1, that is not UTF-8, where there is one. */
  readonly invalidLine?: number | undefined;
  /** The last bytes of stderr, up to the request's limit. */
  readonly stderr: string;
  /** Wall time from the start to the end of the leading process and its output. */
  readonly durationMs: number;
  /** Pids of processes that it left in its process group, where there are any. */
  readonly leftPids?: readonly number[];
  /** CPU time and peak memory, where they are known. */
  readonly usage?: Usage | undefined;
  /** One line for people: `succeeded`, `exit code 3: <last line of stderr>`, `timed out after 5s` … */
  readonly message: string;
  /** The message names a cause and a remedy that the last lines of stderr do not name. */
  readonly isExplained?: boolean;
}

/** The parts of a result that are the same however the run ended. */
type RunDetails = Pick<
  RunResult,
  "leftPids" | "stdout" | "stdoutTruncated" | "invalidLine" | "stderr" | "durationMs"
>;

const NOT_STARTED: RunResult = {
  outcome: "cancelled",
  stdout: "",
  stdoutTruncated: false,
  stderr: "",
  durationMs: 0,
  message: "cancelled",
};

/** Starts child processes, and ends those that are alive. */
export class Children implements ChildHost {
  readonly #failures: Failures;
  readonly #living = new Set<TrackedChild>();
  #isStartAllowed: () => boolean = () => true;
  #launcher: ((spec: LaunchSpec) => Child) | undefined;

  /** `failures` receives errors of readers of output lines. */
  constructor(failures: Failures = new Failures(silentLogger)) {
    this.#failures = failures;
  }

  /**
   * From now on, `run` starts a child only while `isAllowed` returns true; otherwise its result is "cancelled". An operator that was frozen for a
   * while resumes its old work before it learns that another one has become the leader.
   */
  startOnlyWhile(isAllowed: () => boolean): void {
    this.#isStartAllowed = isAllowed;
  }

  /**
   * Runs a child in its own process group and resolves when it has ended; never throws. A time-out or an abort ends the whole group. Processes that the
   * child left in the background do not delay the result, and output takes bounded memory however long it is. A file that another program is
   * writing is tried again for a while.
   */
  async run(request: RunRequest): Promise<RunResult> {
    const { clock = systemClock, signal } = request;
    const giveUpAt = clock.monotonic() + BUSY_FILE_MS;
    for (;;) {
      const mayStart = signal?.aborted !== true && this.#isStartAllowed();
      if (!mayStart) return NOT_STARTED;
      const { result, isFileBusy } = await runChild(request, this);
      if (!isFileBusy || clock.monotonic() >= giveUpAt) return result;
      await sleep(clock, BUSY_FILE_PAUSE_MS, signal);
    }
  }

  /** Starts a long-lived child. */
  coprocess(options: CoprocessOptions): Coprocess {
    return new Coprocess(options, this);
  }

  /** Ends every child that is alive, with its process group: SIGTERM, and SIGKILL after `graceMs`. */
  async endAll(graceMs: number): Promise<void> {
    const children = [...this.#living];
    for (const child of children) child.end(graceMs);
    await Promise.all(children.map((child) => child.ended));
  }

  launch(spec: LaunchSpec): Child {
    this.#launcher ??= createLauncher();
    return this.#launcher(spec);
  }

  track(child: TrackedChild): void {
    this.#living.add(child);
    void child.ended.then(() => this.#living.delete(child));
  }

  callGuarded(fn: () => void): void {
    this.#failures.callAndReport("child", fn);
  }
}

/** How long a file may be written by another program before its start fails, for example while a volume is copied, and how often it is tried. */
const BUSY_FILE_MS = 30_000;
const BUSY_FILE_PAUSE_MS = 200;
const STDOUT_LIMIT = 1024 * 1024;
const STDERR_LIMIT = 64 * 1024;
const GRACE_MS = 3000;
/** After the leader's end, its output counts as complete when nothing arrived for this long. */
const NO_OUTPUT_MS = 100;
/** The output of background processes is read for at most this long. */
const MAX_DRAIN_MS = 1000;
/** The largest pipe of Linux: no more of the leader's output is unread at its end. */
const MAX_PIPE_BYTES = 1024 * 1024;

/** Runs one child, as `Children.run` describes. Never rejects: a failure is a result. */
async function runChild(
  request: RunRequest,
  host: ChildHost,
): Promise<{ result: RunResult; isFileBusy: boolean }> {
  const { clock = systemClock, redact = keepUnchanged } = request;
  const startedAt = clock.monotonic();
  const child = host.launch(request);
  const output = collectOutput(child, request, host);
  const end = await waitForExit(child, request, { clock, host });
  await closeStreams(output.streams, clock);
  await output.flush();
  // Processes that the child has left running in the background.
  const leftPids = child.pid === undefined ? [] : await listPidsLeftInGroup(child.pid, clock, NO_OUTPUT_MS);
  const { text, invalidLine } = output.stdout.read();
  const details = {
    ...(leftPids.length === 0 ? {} : { leftPids }),
    ...(invalidLine === undefined ? {} : { invalidLine }),
    stdout: text,
    stdoutTruncated: output.stdout.truncated,
    stderr: redact(output.stderr.text()),
    durationMs: clock.monotonic() - startedAt,
  };
  return { result: await toResult(details, end, request), isFileBusy: isFileBusy(end.exit, details.stderr) };
}

/** Exit codes of setpriv for a program that it cannot start. */
const SETPRIV_CODES: readonly (number | undefined)[] = [126, 127];

/** Whether a program was not started because its file is open for writing. */
function isFileBusy(exit: Exit, stderr: string): boolean {
  if (exit.kind === "notStarted") return exit.error.code === "ETXTBSY";
  return SETPRIV_CODES.includes(exit.code) && /^setpriv: .*: Text file busy$/m.test(stderr);
}

const keepUnchanged = (text: string): string => text;

interface Output {
  readonly stdout: FirstBytes;
  readonly stderr: LastBytes;
  readonly streams: readonly Readable[];
  flush(): Promise<unknown>;
}

/** Begins to read the output of a child: keeps the first bytes of stdout and the last of stderr, and passes lines to `onLine`. */
function collectOutput(
  child: Child,
  { onLine, stdoutLimit = STDOUT_LIMIT }: RunRequest,
  host: ChildHost,
): Output {
  const report =
    onLine && ((stream: Stream) => (line: string) => host.callGuarded(() => onLine(stream, line)));
  const stdout = new FirstBytes(stdoutLimit);
  const stderr = new LastBytes(STDERR_LIMIT);
  const flushes = [
    readStream(child.stdout, stdout, report?.("stdout")),
    readStream(child.stderr, stderr, report?.("stderr")),
  ];
  const streams = [child.stdout, child.stderr].filter((stream) => stream !== undefined);
  return { stdout, stderr, streams, flush: () => Promise.all(flushes.map((flush) => flush())) };
}

/** Reads a stream: adds its output to `keptBytes`, and passes its lines to `onLine`. Returns a function that resolves after the last line. */
function readStream(
  stream: Readable | undefined,
  keptBytes: FirstBytes | LastBytes,
  onLine: ((line: string) => void) | undefined,
): () => Promise<void> {
  const lines = stream && onLine && new YieldingLineSplitter(stream, onLine);
  stream?.on("data", (chunk: Buffer) => {
    keptBytes.push(chunk);
    lines?.push(chunk);
  });
  // A read error has the same meaning as the end: there is no more output.
  stream?.on("error", () => {});
  return async () => lines?.flush();
}

interface RunEnd {
  readonly exit: Exit;
  /** Undefined for a child that was not started. */
  readonly terminator: GroupTerminator | undefined;
}

/** Waits until the child has exited; ends its process group on time-out, abort or shutdown of the operator. The terminator in the result knows the reason. */
async function waitForExit(
  child: Child,
  request: RunRequest,
  { clock, host }: { readonly clock: Clock; readonly host: ChildHost },
): Promise<RunEnd> {
  if (child.pid === undefined) return { exit: await child.exit, terminator: undefined };
  const terminator = new GroupTerminator(child.pid, clock);
  const { timeoutMs, graceMs = GRACE_MS, signal } = request;
  const timers = new Timers<"limit">(clock);
  if (timeoutMs !== undefined)
    timers.set("limit", timeoutMs, () => terminator.terminate("timedOut", graceMs));
  const abort = (): void => terminator.terminate("cancelled", graceMs);
  signal?.addEventListener("abort", abort, { once: true });
  const exited = child.exit.then(async (exit) => {
    timers.close();
    signal?.removeEventListener("abort", abort);
    await terminator.waitForGroupEnd();
    return { exit, terminator };
  });
  host.track({ end: (ms) => terminator.terminate("cancelled", ms), ended: exited });
  return exited;
}

/**
 * Waits for the end of both streams and closes them. A background process may keep them open. Then it closes them after
 * `NO_OUTPUT_MS` without output, at the latest after `MAX_DRAIN_MS`.
 */
async function closeStreams(streams: readonly Readable[], clock: Clock): Promise<void> {
  const deadline = clock.monotonic() + MAX_DRAIN_MS;
  await Promise.all(streams.map((stream) => waitUntilQuiet(stream, deadline, clock)));
  for (const stream of streams) stream.destroy();
}

/**
 * Resolves when the stream has ended, when it was quiet for `NO_OUTPUT_MS`, or after `deadline` (monotonic clock) as soon as nothing waits to be
 * read: what the leader wrote is complete, however busy the operator is.
 */
function waitUntilQuiet(stream: Readable, deadline: number, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    if (stream.readableEnded || stream.destroyed) return resolve();
    const timers = new Timers<"quiet">(clock);
    let readBytes = 0;
    const stopWaiting = (): void => {
      timers.close();
      stream.off("data", onData).off("end", stopWaiting).off("close", stopWaiting);
      resolve();
    };
    const onData = (chunk: Buffer): void => {
      readBytes += chunk.length;
      const remainingMs = deadline - clock.monotonic();
      if (remainingMs <= 0 && readBytes > MAX_PIPE_BYTES) stopWaiting();
      else waitForOutput(Math.min(NO_OUTPUT_MS, Math.max(0, remainingMs)));
    };
    const waitForOutput = (ms: number): void => timers.set("quiet", ms, stopIfQuiet);
    const stopIfQuiet = (): void => {
      // A paused stream is not quiet: `YieldingLineSplitter` is still handling its last chunk.
      if (stream.isPaused()) return waitForOutput(NO_OUTPUT_MS);
      // After a turn that took long, timers run before what has arrived meanwhile is read.
      const before = readBytes;
      setImmediate(() => {
        if (readBytes === before) stopWaiting();
      });
    };
    stream.on("data", onData).once("end", stopWaiting).once("close", stopWaiting);
    waitForOutput(NO_OUTPUT_MS);
  });
}

/** Converts the end of a run to its result. After a time-out or an abort the exit code does not count: the run has failed. */
async function toResult(
  details: RunDetails,
  { exit, terminator }: RunEnd,
  started: RunRequest,
): Promise<RunResult> {
  const reason = terminator?.reason;
  const { code, signal, usage } = exit.kind === "exited" ? exit : {};
  const result = { ...details, exitCode: code, signal, usage };
  const timeoutText = `timed out after ${formatDuration(started.timeoutMs ?? 0)}`;
  if (reason === "timedOut") return { ...result, outcome: reason, message: timeoutText };
  if (reason === "cancelled") return { ...result, outcome: reason, message: reason };
  if (code === 0) return { ...result, outcome: "succeeded", message: "succeeded" };
  const description = await describeExit(exit, details.stderr, started);
  return { ...result, outcome: exit.kind === "exited" ? "failed" : exit.kind, ...description };
}
