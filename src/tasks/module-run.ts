/** A run of a module, or its removal: what is recorded, logged and measured of it from its begin to its end, and how it is ended early. */

import type { OnWait } from "../helm/index.ts";
import { oneLine, orAborted } from "../lib/index.ts";
import { MAIN_QUEUE, queueOf, type Cause, type LifecycleName } from "../model/index.ts";
import type { RunContext } from "../queue/index.ts";
import {
  atStep,
  begun,
  broken,
  completed,
  failed,
  rolledBack,
  succeeded,
  withValuesOfNow,
} from "../state/index.ts";
import type { Enablement, ModuleActivity, ModuleRecord, RetryReason, RunRecord } from "../state/index.ts";
import { executeHook, failureText, lifecycleHooks } from "./execute-hook.ts";
import type { Ports } from "./run-task.ts";

/** What is to be done to a module, and why. */
interface Work {
  readonly record: Readonly<ModuleRecord>;
  readonly activity: ModuleActivity;
  readonly trigger: Cause;
}

/** A run of a module that is under way. */
export class ModuleRun {
  readonly name: string;
  readonly ports: Ports;
  readonly signal: AbortSignal;
  readonly queue: string;
  /** The module as it is now. */
  readonly record: Readonly<ModuleRecord>;
  /** A person asked for it, and no run was begun for that before. */
  readonly isAsked: boolean;
  /** The only run of a module that is off is its removal. */
  readonly #isFor: "on" | "off";
  readonly #failures: number;
  readonly #startedAt: number;

  /** Begins: the state notes what the run takes into account. */
  constructor(ports: Ports, { record, activity, trigger }: Work, context: RunContext) {
    this.name = record.module.name;
    this.ports = ports;
    this.signal = context.signal;
    this.queue = context.queue;
    this.record = record;
    this.#isFor = activity === "deleting" ? "off" : "on";
    this.#failures = context.failures;
    this.#startedAt = ports.clock.now();
    const basis = ports.state.basisOf(record);
    const { requestedToken: token, run: before } = record;
    this.isAsked = token !== undefined && token !== (before.attempted?.token ?? before.handled.token);
    const attempts = context.failures + 1;
    this.#update((run) => begun(run, { activity, trigger, startedAt: this.#startedAt, attempts, basis }));
  }

  /** The next step, or the next hook of the module within it. Throws when the module was switched off meanwhile. */
  step(step: string, hook?: string): void {
    if (this.#isFor === "on" && !isOn(this.ports, this.name)) throw new Error("the module was switched off");
    this.#update((run) => atStep(run, { step, hook }));
  }

  /** Called with the hook of the chart that helm waits for. */
  readonly onWait: OnWait = (hook) =>
    this.#update((run) => atStep(run, { hook: hook?.name, hookSince: hook?.since }));

  /** The step that runs the module's hooks with this binding, one after the other, up to the first that fails. */
  async hooks(binding: LifecycleName): Promise<void> {
    const { ports, queue, signal } = this;
    this.step(binding);
    for (const { hook, trigger } of lifecycleHooks(this.record.hooks, binding)) {
      signal.throwIfAborted();
      this.step(binding, hook.name);
      await executeHook(ports, { hook, triggers: [trigger], queue, signal });
    }
  }

  /** Notes what helm is going to use: later changes cause another run. */
  takeValues(): void {
    const basis = this.ports.state.basisOf(this.record);
    this.#update((run) => withValuesOfNow(run, basis));
  }

  /** All steps are done: what the run took into account is handled. */
  complete(): void {
    const { values } = this.ports.state.basisOf(this.record);
    this.#update((run) => completed(run, values));
  }

  /** Milliseconds since the begin. */
  get ms(): number {
    return this.ports.clock.now() - this.#startedAt;
  }

  succeed(): void {
    this.#update((run) => succeeded(run, this.ports.clock.now()));
  }

  /** Ends with the release as it was before what failed; `why` tells of both. */
  rollBack(why: string): void {
    this.#update((run) => rolledBack(run, why, this.ports.clock.now()));
  }

  /** Ends with a failure that is tried again; returns it in words. */
  fail(error: unknown, reason: RetryReason): string {
    const { clock, recorder } = this.ports;
    const failure = {
      reason,
      message: failureText(error),
      failures: this.#failures + 1,
      line: oneLine(error),
    };
    this.#update((run) => failed(run, failure, clock.now()));
    recorder.failed(this.name, reason, failure.message);
    return failure.message;
  }

  /** Ends without a result that counts. */
  break(message: string): void {
    this.#update((run) => broken(run, message, this.ports.clock.now()));
  }

  #update(change: (run: RunRecord) => RunRecord): void {
    this.ports.state.updateRun(this.name, change);
  }
}

/** Whether a module is still on: one with a queue of its own may be switched off, or be gone, while it runs. */
export function isOn({ state }: Ports, module: string): boolean {
  return state.module(module)?.enabled === true;
}

/**
 * Logs that a module needs a person: an enabled one because of its values, a disabled one because it is protected.
 */
export function tellProblem(
  { logger, recorder }: Ports,
  module: string,
  decision: Pick<Enablement, "enabled" | "problem">,
): void {
  const { enabled, problem } = decision;
  logger.error("Module is invalid", { module, ...problem });
  if (enabled) recorder.failed(module, "ValuesInvalid", problem?.message ?? "");
}

/** Ends the runs of modules that are under way: what they stand on is about to change. */
export function endRuns({ queues }: Ports, modules: ReadonlySet<string | undefined>): Promise<void> {
  return queues.ended((task) => task.kind === "run-module" && modules.has(task.module));
}

/** Ends everything that is under way in a module's own queue: nothing overlaps its removal. */
export async function endWork({ queues, state }: Ports, module: string, signal: AbortSignal): Promise<void> {
  const own = queueOf(state.view.moduleQueues, module);
  if (own !== MAIN_QUEUE)
    await orAborted(
      queues.ended((_, queue) => queue === own),
      signal,
    );
}
