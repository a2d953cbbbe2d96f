/**
 * One long-lived jq process for one filter. A job is one evaluation: it waits until few enough jobs are with jq, is sent as a line
 * to its stdin, and ends with the answer line on its stdout.
 */

import {
  attempt,
  type Clock,
  DepthError,
  canonicalJson,
  formatDuration,
  isTooDeep,
  oneLine,
  Timers,
} from "../../base/index.ts";
import { isJsonObject, mapExactNumbers, readJson } from "../../base/model/index.ts";
import type { Json } from "../../base/model/index.ts";
import { readJqNumber } from "./exact-numbers.ts";
import type { Coprocess, CoprocessExit } from "../../base/process/index.ts";
import { FilterError } from "./lexer.ts";
import type { Jq } from "./jq.ts";

export interface JqProcessOptions {
  readonly jq: Jq;
  readonly text: string;
  readonly clock: Clock;
  readonly timeLimitMs: number;
  /** Called before a process is started, so that the owner can end idle ones. */
  readonly onStart: (process: JqProcess) => void;
}

/** One evaluation of the filter. `failures` counts the failed tries. */
interface Job {
  readonly id: number;
  readonly input: Json;
  failures: number;
  readonly resolve: (outputs: Json[]) => void;
  readonly reject: (error: FilterError) => void;
}

/** At most so many jobs and bytes are sent to jq before it answers. That keeps it busy, and little is sent again if it dies. */
const MAX_SENT_JOBS = 32;
const MAX_SENT_BYTES = 256 * 1024;
const MAX_TRIES_OF_JOB = 2;
/** After this many time-outs all queued jobs fail: a filter that never ends fails for all objects at once. */
const MAX_TIMEOUTS = 4;
const MAX_MESSAGE_CHARS = 300;
const TOO_DEEP = new DepthError("the filter's result").message;

/** Hides functions from the filter that would read the next input, end jq or depend on the stream. */
const PRELUDE = [
  ...["input", "inputs", "input_line_number", "halt", "halt_error", "halt_error(f)", "modulemeta"].map(
    (name) => `def ${name}: error("${name} is not available in a filter");`,
  ),
  ...["debug", "debug(f)", "stderr"].map((name) => `def ${name}: .;`),
  "def env: {}; def input_filename: null;",
].join(" ");

/**
 * The program of a process: for each line `[id, input]` exactly one line `[id, {v: outputs}]` or `[id, {e: error}]`.
 * The filter stands on the first line (for `$__loc__`). Two line ends follow it: the first ends a comment on its last line, the second a comment that continues after a backslash.
 */
export function buildJqProgram(text: string): string {
  return `${PRELUDE} [.[0], (try {v: [.[1] | (${text}\n\n)]} catch {e: .})]`;
}

/**
 * The long-lived jq process of one filter. Answers come in order and carry the id of their job, so no result goes to another
 * object. If an evaluation exceeds its time limit or jq dies, a new process tries that evaluation once more.
 */
export class JqProcess {
  readonly #options: JqProcessOptions;
  #waiting: Job[] = [];
  #sent: Job[] = [];
  #child: Coprocess | undefined;
  readonly #timers: Timers<"limit">;
  /** Time-outs since the queue was last empty. */
  #timeouts = 0;
  #lastId = 0;
  #closed = false;

  constructor(options: JqProcessOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
  }

  /** Whether evaluations are pending. */
  get isBusy(): boolean {
    return this.#waiting.length > 0 || this.#sent.length > 0;
  }

  /** Evaluates the filter for one input and resolves with all outputs. Rejects with FilterError. */
  evaluate(input: Json): Promise<Json[]> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new FilterError("engine", "the filter engine is closed"));
      // All jobs fail after some time-outs without a pause; this is a pause.
      if (!this.isBusy) this.#timeouts = 0;
      this.#waiting.push({ id: ++this.#lastId, input, failures: 0, resolve, reject });
      this.#sendWaitingJobs();
    });
  }

  /** Ends the process to free its memory; the next evaluation starts a new one. Call it only while `isBusy` is false. */
  stopIdleProcess(): void {
    const child = this.#child;
    this.#child = undefined;
    child?.close();
  }

  /** Ends the process and fails pending evaluations. */
  close(): void {
    this.#closed = true;
    this.#endAndRejectAll(new FilterError("engine", "the filter engine is closed"));
  }

  /** Sends waiting jobs to jq as long as the limits allow; starts jq if it does not run. */
  #sendWaitingJobs(): void {
    while (this.#waiting.length > 0 && this.#canSendMore()) {
      this.#child ??= this.#startProcess();
      const job = this.#waiting.shift();
      if (job === undefined) return;
      this.#sent.push(job);
      if (this.#sent.length === 1) this.#startTimeLimit();
      this.#child.send(`[${job.id},${canonicalJson(job.input)}]`);
    }
  }

  /** Whether jq may get another job before it has answered the earlier ones. */
  #canSendMore(): boolean {
    return this.#sent.length < MAX_SENT_JOBS && (this.#child?.pendingBytes ?? 0) < MAX_SENT_BYTES;
  }

  /** Starts jq. Ignores late answers and the exit of a process that was replaced meanwhile. */
  #startProcess(): Coprocess {
    const { jq, text, onStart } = this.#options;
    onStart(this);
    const flags = jq.gojq ? ["-c"] : ["-c", "--unbuffered"];
    const onLine = (line: string): void => {
      if (this.#child === child) this.#handleAnswer(line);
    };
    const args = [...flags, buildJqProgram(text)];
    const child = jq.children.coprocess({ file: jq.file, args, cwd: "/", env: jq.env, onLine });
    void child.exited.then((exit) => {
      if (this.#child === child) this.#handleExit(exit);
    });
    return child;
  }

  /** Resolves or rejects the job that an answer line of jq belongs to, and sends the next jobs. */
  #handleAnswer(line: string): void {
    const answer = parseAnswer(line);
    const index = this.#sent.findIndex((job) => job.id === answer?.id);
    if (answer === undefined || index < 0)
      return this.#restartAfterFailure(new FilterError("engine", "jq gave an unreadable answer"));
    // Earlier jobs got no answer: they failed with an error that even `try` does not catch.
    for (const job of this.#sent.splice(0, index)) {
      job.reject(new FilterError("runtime", "the filter gave no answer"));
    }
    const job = this.#sent.shift();
    this.#startTimeLimit();
    if ("error" in answer) job?.reject(new FilterError("runtime", hideSecretFromMessage(answer.error, job)));
    else job?.resolve(answer.outputs);
    this.#sendWaitingJobs();
  }

  /** Starts the time limit of the first sent job: jq begins with it now, because it has answered all earlier ones. */
  #startTimeLimit(): void {
    this.#timers.cancel("limit");
    if (this.#sent.length === 0) return;
    const { timeLimitMs } = this.#options;
    this.#timers.set("limit", timeLimitMs, () => {
      const error = new FilterError("timeout", `the filter took over ${formatDuration(timeLimitMs)}`);
      this.#timeouts += 1;
      if (this.#timeouts < MAX_TIMEOUTS) this.#restartAfterFailure(error);
      else this.#endAndRejectAll(error);
    });
  }

  /** After jq has ended: rejects all jobs if it could not start, otherwise tries them in a new process. */
  #handleExit(exit: CoprocessExit): void {
    if (!exit.started) return this.#endAndRejectAll(new FilterError("engine", exit.message));
    const problem = exit.stderr === "" ? exit.message : oneLine(exit.stderr, MAX_MESSAGE_CHARS);
    const message = `jq ended: ${hideSecretFromMessage(problem, this.#sent[0])}`;
    this.#restartAfterFailure(new FilterError("engine", message));
  }

  /**
   * Ends jq and sends its jobs to a new process. The first job caused the failure: it has one more try, and is rejected with
   * `error` after its last one. The other jobs do not lose a try.
   */
  #restartAfterFailure(error: FilterError): void {
    this.#timers.cancel("limit");
    const child = this.#child;
    this.#child = undefined;
    child?.kill();
    const [failedJob, ...otherJobs] = this.#sent;
    this.#sent = [];
    if (failedJob === undefined) return;
    failedJob.failures++;
    const isLastTry = failedJob.failures >= MAX_TRIES_OF_JOB;
    if (isLastTry) failedJob.reject(error);
    this.#waiting = [...(isLastTry ? [] : [failedJob]), ...otherJobs, ...this.#waiting];
    this.#sendWaitingJobs();
  }

  /** Ends jq and rejects the sent and the waiting jobs: jq cannot start, hangs with each new process, or is not needed any more. */
  #endAndRejectAll(error: FilterError): void {
    const jobs = [...this.#sent, ...this.#waiting];
    this.#child?.kill();
    this.#child = undefined;
    this.#timers.cancel("limit");
    this.#sent = [];
    this.#waiting = [];
    for (const job of jobs) job.reject(error);
  }
}

/** The message of a failed job. For a Secret, omits jq's message, which may quote the input. */
function hideSecretFromMessage(message: string, job: Job | undefined): string {
  const isSecret = isJsonObject(job?.input) && job.input["kind"] === "Secret";
  return isSecret ? "it failed; what jq says is left out, since it may quote the Secret" : message;
}

type Answer =
  | { readonly id: number; readonly outputs: Json[] }
  | { readonly id: number; readonly error: string };

/** Reads an answer line, `[id, {v: outputs}]` or `[id, {e: error}]`, as `buildJqProgram` says; undefined = the line has another form. */
function parseAnswer(line: string): Answer | undefined {
  const answer = attempt(() => mapExactNumbers(readJson(line), readJqNumber));
  if (!Array.isArray(answer)) return undefined;
  const [id, body] = answer;
  if (typeof id !== "number" || !isJsonObject(body)) return undefined;
  if (Array.isArray(body["v"])) {
    return isTooDeep(body["v"]) ? { id, error: TOO_DEEP } : { id, outputs: body["v"] };
  }
  const { e: error } = body;
  if (typeof error !== "string") return { id, error: "an error that is not a text" };
  return { id, error: oneLine(omitQuotedValues(error), MAX_MESSAGE_CHARS) };
}

/**
 * Removes values, which may be secrets, from jq's message: all from the first opening bracket to the last closing one. jq puts
 * values that it cannot handle into brackets: `string ("…") and number (1) cannot be added`.
 */
function omitQuotedValues(message: string): string {
  const start = message.indexOf("(");
  const end = message.lastIndexOf(")");
  if (start < 0 || end < start) return message;
  return `${message.slice(0, start).trimEnd()}${message.slice(end + 1)}`;
}
