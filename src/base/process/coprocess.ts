/** A long-lived helper process, such as jq, that answers lines on stdin with lines on stdout. Its host starts children, and ends them when the operator stops. */

import { systemClock } from "../index.ts";
import type { Child, ChildHost, LaunchSpec } from "./child.ts";
import { GroupTerminator, sendSignal } from "./termination.ts";
import { LastBytes, LineSplitter } from "./output.ts";
import { describeExit } from "./exit-message.ts";

/** What to start, and the receiver of its answers. */
export interface CoprocessOptions extends Omit<LaunchSpec, "stdin" | "uid"> {
  /** Called for each line of stdout, without its line end; blank lines are dropped. */
  readonly onLine: (line: string) => void;
}

/** How a coprocess ended, or why it was not started. */
export interface CoprocessExit {
  readonly started: boolean;
  readonly stderr: string;
  /** One line for people. */
  readonly message: string;
}

/** Characters of a line after which it is cut (and ends in `:truncated`). */
const MAX_ANSWER_LENGTH = 64 * 1024 * 1024;
const STDERR_LIMIT = 16 * 1024;

/**
 * A long-lived child: newline-delimited requests in, newline-delimited answers out, in order. It starts at once;
 * `exited` resolves (it never rejects) when it has ended for any reason, after `onLine` got its last line.
 */
export class Coprocess {
  readonly exited: Promise<CoprocessExit>;
  readonly #child: Child;
  readonly #stderr = new LastBytes(STDERR_LIMIT);
  #isAlive: boolean;

  /** Starts the process. `options.onLine` receives each line of its output. A failed start is an exit, too: see `exited`. */
  constructor(options: CoprocessOptions, host: ChildHost) {
    this.#child = host.launch({ ...options, stdin: "pipe" });
    this.#isAlive = this.#child.pid !== undefined;
    const lines = new LineSplitter((line) => host.callGuarded(() => options.onLine(line)), MAX_ANSWER_LENGTH);
    this.#readStreams(lines);
    this.exited = this.#waitForExit(options, lines);
    this.#trackByHost(host);
  }

  /** False as soon as the end of the child is known. */
  get isAlive(): boolean {
    return this.#isAlive;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Bytes of requests that the child has not read yet. */
  get pendingBytes(): number {
    return this.#child.stdin?.writableLength ?? 0;
  }

  /** Sends one line; a line end is added. A line to a child that has ended is lost; `exited` reports the end. */
  send(line: string | Uint8Array): void {
    if (!this.#isAlive) return;
    this.#child.stdin?.write(line);
    this.#child.stdin?.write("\n");
  }

  /** Closes stdin: a well-behaved child answers what it has read and ends. */
  close(): void {
    this.#child.stdin?.end();
  }

  /** Ends the child's whole process group at once. */
  kill(): void {
    if (this.#isAlive && this.#child.pid !== undefined) sendSignal(-this.#child.pid, "SIGKILL");
  }

  /** Passes stdout to the line splitter, and keeps the end of stderr. */
  #readStreams(lines: LineSplitter): void {
    const { stdin, stdout, stderr } = this.#child;
    stdout?.on("data", (chunk: Buffer) => lines.push(chunk));
    stderr?.on("data", (chunk: Buffer) => this.#stderr.push(chunk));
    // Errors such as EPIPE are ignored, because the exit gives the reason.
    for (const stream of [stdin, stdout, stderr]) stream?.on("error", () => {});
  }

  /** Waits for the end of the child and for its last line, then describes the end. */
  async #waitForExit(options: CoprocessOptions, lines: LineSplitter): Promise<CoprocessExit> {
    const exit = await this.#child.exit;
    this.#isAlive = false;
    await waitForStreamEnd(this.#child.stdout);
    lines.flush();
    this.#child.stdin?.destroy();
    this.#child.stderr?.destroy();
    const stderr = this.#stderr.text();
    const { message } = await describeExit(exit, stderr, options);
    return { started: exit.kind === "exited", stderr, message };
  }

  /** Registers the child with its host, which ends it when the operator stops. */
  #trackByHost(host: ChildHost): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    const terminator = new GroupTerminator(pid, systemClock);
    const ended = this.exited.then(() => terminator.waitForGroupEnd());
    host.track({ end: (graceMs) => terminator.terminate("cancelled", graceMs), ended });
  }
}

/** Resolves when the stream has ended or closed; at once if there is none. */
function waitForStreamEnd(stream: Child["stdout"]): Promise<void> {
  return new Promise((resolve) => {
    if (stream === undefined || stream.readableEnded || stream.destroyed) return resolve();
    stream.once("end", resolve).once("close", resolve);
  });
}
