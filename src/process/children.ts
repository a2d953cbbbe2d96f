/** The child processes of an operator or of one command. */

import { Failures, silentLogger } from "../lib/index.ts";
import { createLauncher } from "./child.ts";
import type { Child, ChildHost, LaunchSpec, TrackedChild } from "./child.ts";
import { Coprocess, type CoprocessOptions } from "./coprocess.ts";
import { runChild, type RunRequest, type RunResult } from "./run-process.ts";

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
   * child left in the background do not delay the result, and output takes bounded memory however long it is.
   */
  run(request: RunRequest): Promise<RunResult> {
    const mayStart = request.signal?.aborted !== true && this.#isStartAllowed();
    return mayStart ? runChild(request, this) : Promise.resolve(NOT_STARTED);
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
