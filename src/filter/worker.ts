/** One long-lived jq process for one filter. */

import {
  type Clock,
  DepthError,
  canonicalJson,
  formatDuration,
  isTooDeep,
  oneLine,
  type Timer,
} from "../lib/index.ts";
import { isJsonObject, type Json } from "../model/index.ts";
import { Coprocess, type CoprocessExit } from "../process/index.ts";
import { FilterError } from "./filter-error.ts";
import type { Jq } from "./jq.ts";

export interface WorkerOptions {
  readonly jq: Jq;
  readonly text: string;
  readonly clock: Clock;
  /** Time limit of one evaluation. */
  readonly timeLimitMs: number;
  /** Called before a process is started, so that the owner can end idle ones. */
  readonly onStart: (worker: JqWorker) => void;
}

interface Job {
  readonly id: number;
  readonly input: Json;
  failures: number;
  readonly resolve: (outputs: Json[]) => void;
  readonly reject: (error: FilterError) => void;
}

/**
 * Most jobs and bytes that are sent ahead to jq: enough to keep it busy, few enough to be sent again when it dies.
 */
const WINDOW = 32;
const WINDOW_BYTES = 256 * 1024;
const TRIES = 2;
const MESSAGE_LIMIT = 300;
const TOO_DEEP = new DepthError("the filter's result").message;

/** Functions that would take the next event, end jq or depend on the stream; they are hidden from the filter. */
const PRELUDE = [
  ...["input", "inputs", "input_line_number", "halt", "halt_error", "halt_error(f)", "modulemeta"].map(
    (name) => `def ${name}: error("${name} is not available in a filter");`,
  ),
  ...["debug", "debug(f)", "stderr"].map((name) => `def ${name}: .;`),
  "def env: {}; def input_filename: null;",
].join(" ");

/**
 * The program of a worker: for each line `[id, input]` exactly one line `[id, {v: outputs}]` or `[id, {e: error}]`.
 * The filter stands on the first line (for `$__loc__`), and line ends after it end its comments.
 */
export function workerProgram(text: string): string {
  return `${PRELUDE} [.[0], (try {v: [.[1] | (${text}\n\n)]} catch {e: .})]`;
}

/**
 * The long-lived jq process of one filter. Answers come in order and carry the id of their question, so no result
 * can go to another object. After an evaluation over its time limit, or the death of jq, it is tried once more in a
 * new process.
 */
export class JqWorker {
  readonly #options: WorkerOptions;
  #waiting: Job[] = [];
  #sent: Job[] = [];
  #child: Coprocess | undefined;
  #limit: Timer | undefined;
  #lastId = 0;
  #closed = false;

  constructor(options: WorkerOptions) {
    this.#options = options;
  }

  get busy(): boolean {
    return this.#waiting.length > 0 || this.#sent.length > 0;
  }

  /** All outputs for one input. Rejects with FilterError. */
  evaluate(input: Json): Promise<Json[]> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new FilterError("engine", "the filter engine is closed"));
      this.#waiting.push({ id: ++this.#lastId, input, failures: 0, resolve, reject });
      this.#pump();
    });
  }

  /** Ends the process; the next evaluation starts a new one. Call it only when the worker is not busy. */
  park(): void {
    const child = this.#child;
    this.#child = undefined;
    child?.close();
  }

  /** Ends the process and fails evaluations under way. */
  close(): void {
    this.#closed = true;
    this.#limit?.cancel();
    const child = this.#child;
    this.#child = undefined;
    child?.kill();
    this.#refuseAll(new FilterError("engine", "the filter engine is closed"));
  }

  #pump(): void {
    while (this.#waiting.length > 0 && this.#hasRoom()) {
      this.#child ??= this.#start();
      const job = this.#waiting.shift();
      if (job === undefined) return;
      this.#sent.push(job);
      if (this.#sent.length === 1) this.#watchHead();
      this.#child.send(`[${job.id},${canonicalJson(job.input)}]`);
    }
  }

  #hasRoom(): boolean {
    return this.#sent.length < WINDOW && (this.#child?.pendingBytes ?? 0) < WINDOW_BYTES;
  }

  #start(): Coprocess {
    const { jq, text, onStart } = this.#options;
    onStart(this);
    const flags = jq.gojq ? ["-c"] : ["-c", "--unbuffered"];
    const onLine = (line: string): void => {
      if (this.#child === child) this.#answer(line);
    };
    const args = [...flags, workerProgram(text)];
    const child = new Coprocess({ file: jq.file, args, cwd: "/", env: jq.env, onLine });
    void child.exited.then((exit) => {
      if (this.#child === child) this.#ended(exit);
    });
    return child;
  }

  #answer(line: string): void {
    const answer = parseAnswer(line);
    const place = this.#sent.findIndex((job) => job.id === answer?.id);
    if (answer === undefined || place < 0)
      return this.#fail(new FilterError("engine", "jq gave an unreadable answer"));
    // Earlier ones got no answer at all: an error that even `try` does not catch.
    for (const job of this.#sent.splice(0, place)) {
      job.reject(new FilterError("runtime", "the filter gave no answer"));
    }
    const job = this.#sent.shift();
    this.#watchHead();
    if ("error" in answer) job?.reject(new FilterError("runtime", answer.error));
    else job?.resolve(answer.outputs);
    this.#pump();
  }

  /** The time limit of a job starts when jq begins with it, not when it was sent. */
  #watchHead(): void {
    this.#limit?.cancel();
    if (this.#sent.length === 0) return;
    const { clock, timeLimitMs } = this.#options;
    this.#limit = clock.setTimer(timeLimitMs, () => {
      this.#fail(new FilterError("timeout", `the filter took over ${formatDuration(timeLimitMs)}`));
    });
  }

  #ended(exit: CoprocessExit): void {
    if (!exit.started) return this.#refuseAll(new FilterError("engine", exit.message));
    const why = exit.stderr === "" ? exit.message : oneLine(exit.stderr, MESSAGE_LIMIT);
    this.#fail(new FilterError("engine", `jq ended: ${why}`));
  }

  /**
   * The job that jq was working on is to blame: it gets one more try. The others are sent again, and this does not
   * count as a try.
   */
  #fail(error: FilterError): void {
    this.#limit?.cancel();
    const child = this.#child;
    this.#child = undefined;
    child?.kill();
    const [head, ...rest] = this.#sent;
    this.#sent = [];
    if (head === undefined) return;
    head.failures++;
    if (head.failures < TRIES) rest.unshift(head);
    else head.reject(error);
    this.#waiting = [...rest, ...this.#waiting];
    this.#pump();
  }

  #refuseAll(error: FilterError): void {
    const jobs = [...this.#sent, ...this.#waiting];
    this.#child = undefined;
    this.#limit?.cancel();
    this.#sent = [];
    this.#waiting = [];
    for (const job of jobs) job.reject(error);
  }
}

type Answer =
  | { readonly id: number; readonly outputs: Json[] }
  | { readonly id: number; readonly error: string };

function parseAnswer(line: string): Answer | undefined {
  const answer = parsed(line);
  if (!Array.isArray(answer)) return undefined;
  const [id, body] = answer;
  if (typeof id !== "number" || !isJsonObject(body)) return undefined;
  if (Array.isArray(body["v"])) {
    return isTooDeep(body["v"]) ? { id, error: TOO_DEEP } : { id, outputs: body["v"] };
  }
  const { e } = body;
  return {
    id,
    error: typeof e === "string" ? oneLine(withoutValues(e), MESSAGE_LIMIT) : "an error that is not a text",
  };
}

/** jq puts the values that it cannot handle into brackets: `string ("…") and number (1) cannot be added`. */
function withoutValues(message: string): string {
  const [from, to] = [message.indexOf("("), message.lastIndexOf(")")];
  return from < 0 || to < from ? message : `${message.slice(0, from).trimEnd()}${message.slice(to + 1)}`;
}

function parsed(line: string): Json | undefined {
  try {
    return JSON.parse(line) as Json;
  } catch {
    return undefined;
  }
}
