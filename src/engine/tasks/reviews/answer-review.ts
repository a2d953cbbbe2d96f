/**
 * Runs hooks to answer reviews of the API server, outside of the queues (docs/reference/hooks.md, "Webhooks"). `signal` is aborted when the time
 * for the answer is over, or the answer is sent.
 */

import PQueue from "p-queue";

import { buildHookTask } from "../../../hooks/bindings/index.ts";
import type { HookAnswers } from "../../../hooks/index.ts";
import { oneLine, sleep, type Clock } from "../../../base/index.ts";
import { objectsIn } from "../../../base/model/index.ts";
import type {
  AdmissionBinding,
  Hook,
  HookTrigger,
  JsonObject,
  ReviewTrigger,
  ConversionBinding,
  ConversionRule,
  Task,
} from "../../../base/model/index.ts";
import type { QueuesOptions } from "../../queue/index.ts";
import { getTaskOrigin } from "../../../base/trace/index.ts";
import type {
  AdmissionRequest,
  AdmissionResponse,
  ConversionRequest,
  ConversionResponse,
} from "../../../webhooks/index.ts";
import { executeHook } from "../hooks/execute-hook.ts";
import type { Ports } from "../ports.ts";

interface AnswerOptions {
  readonly ports: () => Ports;
  readonly clock: Clock;
  /** At most so many hooks run for reviews at one time; more reviews wait, each until its time is over. */
  readonly concurrency: number;
  /** The same while the queues run tasks, for reviews of requests that are not the operator's: they would delay the tasks. */
  readonly concurrencyBesideTasks: number;
  /** Whether a task runs at this moment. */
  readonly runsTask: () => boolean;
  /** Whether the operator, or the account of a module, sent the request: a task may wait for its answer. */
  readonly isFromOperator: (request: AdmissionRequest, signal: AbortSignal) => Promise<boolean>;
  /** Shared with the runs from queues. */
  readonly limits: NonNullable<QueuesOptions<Task>["limits"]>;
}

/** HTTP codes of denials: the hook failed, or wrote no answer. */
const FAILED = 403;
const NO_ANSWER = 500;
/** Tasks follow each other with pauses, in which many runs would begin. */
const PAUSE_MS = 1000;
/** While queues work, a place for runs stays empty after a run for this many times its duration, so that tasks get the CPU. */
const REST_FACTOR = 2;
const MAX_REST_MS = 200;

/** Runs hooks for reviews: in parallel, each until its time is over, then its processes are killed. */
export class ReviewRuns {
  readonly #options: AnswerOptions;
  readonly #slots: PQueue;
  /** The requests of others pass through this queue first. */
  readonly #others = new PQueue();
  /** Until then, on the monotonic clock in ms, queues work. */
  #workUntil = 0;

  constructor(options: AnswerOptions) {
    this.#options = options;
    this.#slots = new PQueue({ concurrency: options.concurrency });
  }

  /** The answer of a hook to an admission request. A hook that fails denies it, whatever the `failurePolicy`. */
  async admit(
    { hook, binding }: { readonly hook: Hook; readonly binding: AdmissionBinding },
    request: AdmissionRequest,
    signal: AbortSignal,
  ): Promise<AdmissionResponse> {
    const trigger = { type: binding.type, binding, request } as ReviewTrigger;
    const run = (): Promise<HookAnswers | undefined> => this.#run(hook, trigger, signal);
    // A task waits for the answer to a request of the operator or of a module's account: that runs at once.
    const isFromOperator = await this.#options.isFromOperator(request, signal);
    const answers = await (isFromOperator ? run() : this.#besideTasks(run, signal));
    if (answers === undefined) return { allowed: false, code: FAILED, message: "Hook failed" };
    const { admission } = answers;
    if (admission !== undefined) return admission;
    return { allowed: false, code: NO_ANSWER, message: answerProblem(hook, trigger, answers) };
  }

  /**
   * Converts objects to the desired version, step by step: hooks declare steps such as v1 to v2. Starts with each version that objects have.
   * A step gets all objects of the request, converted ones too, and must return as many.
   */
  async convert(
    { crdName, steps }: { readonly crdName: string; readonly steps: readonly ConversionStep[] },
    request: ConversionRequest,
    signal: AbortSignal,
  ): Promise<ConversionResponse> {
    const { uid, desiredAPIVersion: desired } = request;
    let { objects } = request;
    for (const version of new Set(objects.map(versionOf))) {
      const isDone = version === desired || !objects.some((each) => versionOf(each) === version);
      if (isDone) continue;
      const path = conversionPath(steps, version, desired);
      if (path === undefined) return unsuccessful(crdName, desired, `no hook converts from ${version}`);
      for (const step of path) {
        const input = { uid, desiredAPIVersion: desired, objects };
        const result = await this.#runStep(step, input, signal);
        if ("failedMessage" in result) return result;
        objects = [...result.convertedObjects];
      }
    }
    const otherVersion = objects.map(versionOf).find((version) => version !== desired);
    return otherVersion === undefined
      ? { convertedObjects: objects }
      : unsuccessful(crdName, desired, `an object is still of ${otherVersion}`);
  }

  /** Runs one hook for one rule, a step such as v1 to v2. A wrong answer, for example with too few objects, is a failure. */
  async #runStep(
    { hook, binding, rule }: ConversionStep,
    request: ConversionRequest,
    signal: AbortSignal,
  ): Promise<ConversionResponse> {
    const trigger = { type: "conversion", binding, request, rule } as const;
    const answers = await this.#run(hook, trigger, signal);
    if (answers === undefined)
      return { failedMessage: `Hook failed to convert to ${request.desiredAPIVersion}` };
    const problem = answerProblem(hook, trigger, answers);
    const { convertedObjects = [], failedMessage = problem } = answers.conversion ?? {};
    return failedMessage === undefined ? { convertedObjects } : { failedMessage };
  }

  /**
   * Runs a hook for a request that is not the operator's own. While queues work, fewer such runs begin at one time, with a rest after each: they
   * must not slow down tasks. Rejects if the time for the answer is over.
   */
  #besideTasks<T>(run: () => Promise<T>, signal: AbortSignal): Promise<T> {
    this.#adjustConcurrency();
    const answer = Promise.withResolvers<T>();
    // The queue does not get the signal, which is aborted after the answer and would end the rest.
    void this.#others.add(async () => {
      if (signal.aborted) return answer.reject(signal.reason);
      const { clock } = this.#options;
      const startedAt = clock.monotonic();
      await run().then(answer.resolve, answer.reject);
      this.#adjustConcurrency();
      const now = clock.monotonic();
      const restMs = now < this.#workUntil ? Math.min((now - startedAt) * REST_FACTOR, MAX_REST_MS) : 0;
      if (restMs > 0) await sleep(clock, restMs);
      this.#adjustConcurrency();
    });
    return answer.promise;
  }

  /** Sets how many reviews of other clients' requests may run at one time, by whether queues work at this moment or did so within PAUSE_MS. */
  #adjustConcurrency(): void {
    const { clock, concurrency, concurrencyBesideTasks, runsTask } = this.#options;
    const now = clock.monotonic();
    if (runsTask()) this.#workUntil = now + PAUSE_MS;
    const isWorking = now < this.#workUntil;
    this.#others.concurrency = isWorking ? Math.min(concurrency, concurrencyBesideTasks) : concurrency;
  }

  /**
   * Runs the hook when one of the slots for parallel reviews is free, traced as a task of its own. Undefined if the hook fails, which is logged. Rejects
   * if the time for the answer is over.
   */
  async #run(hook: Hook, trigger: ReviewTrigger, signal: AbortSignal): Promise<HookAnswers | undefined> {
    const ports = this.#options.ports();
    const triggers: readonly [HookTrigger] = [trigger];
    const { clock, logger, tracer } = ports;
    const attributes = { kind: "review", module: hook.module, binding: trigger.binding.name };
    const span = { name: `review ${hook.id}`, attributes, module: hook.module, waitingSince: clock.now() };
    const run = async (): Promise<HookAnswers> => {
      await this.#waitForToken(hook, trigger, signal);
      signal.throwIfAborted();
      return tracer.task({ ...span, from: getTaskOrigin() }, () =>
        executeHook(ports, { hook, triggers, queue: "", signal }),
      );
    };
    try {
      return await this.#slots.add(run, { signal });
    } catch (error) {
      signal.throwIfAborted();
      const { name, module } = hook;
      const { name: binding } = trigger.binding;
      logger.error("Hook failed", { hook: name, module, binding, error: oneLine(error) });
      return undefined;
    }
  }

  /** Waits until the hook may run by the rate limit in its `settings` (`executionMinInterval`), and counts the run. */
  async #waitForToken(hook: Hook, trigger: ReviewTrigger, signal: AbortSignal): Promise<void> {
    const { limits, clock } = this.#options;
    const task = buildHookTask(hook, trigger);
    for (let ms = limits.waitMs(task); ms > 0 && !signal.aborted; ms = limits.waitMs(task))
      await sleep(clock, ms, signal);
    limits.consume(task);
  }
}

function versionOf(object: JsonObject): string {
  const { apiVersion } = object;
  return typeof apiVersion === "string" ? apiVersion : "";
}

/** The response for a conversion that no chain of hooks completes. */
function unsuccessful(crdName: string, desired: string, why: string): ConversionResponse {
  return { failedMessage: `Conversion ${crdName} to ${desired} was not successful: ${why}` };
}

/** A rule and the hook that carries it out. */
export interface ConversionStep {
  readonly hook: Hook;
  readonly binding: ConversionBinding;
  readonly rule: ConversionRule;
}

/** Whether two spellings may mean the same version: they are equal, or one of them has no group. */
function mayBeSameVersion(a: string, b: string): boolean {
  if (a.includes("/") && b.includes("/")) return a === b;
  return withoutGroup(a) === withoutGroup(b);
}

/** `stable.example.com/v1` → `v1`. */
function withoutGroup(version: string): string {
  return version.slice(version.indexOf("/") + 1);
}

/**
 * Finds the fewest steps from one apiVersion to another (breadth-first search); undefined if there is no way. Rules that spell the
 * version exactly come first, then the order of `steps` counts. Hooks may spell a version with its group or without it (`v1`, `example.com/v1`).
 */
export function conversionPath(
  steps: readonly ConversionStep[],
  from: string,
  to: string,
): ConversionStep[] | undefined {
  const firstSteps = steps.filter(({ rule }) => mayBeSameVersion(rule.fromVersion, from));
  const isExact = ({ rule }: ConversionStep): boolean => rule.fromVersion === from;
  const orderedSteps = [...firstSteps.filter(isExact), ...firstSteps.filter((step) => !isExact(step))];
  // All paths have the same length, and `version` is where each leads.
  let paths = orderedSteps.map((step) => ({ path: [step], version: step.rule.toVersion }));
  const visitedSteps = new Set(firstSteps);
  while (paths.length > 0) {
    const completePaths = paths.filter(({ version }) => mayBeSameVersion(version, to));
    const result = completePaths.find(({ version }) => version === to) ?? completePaths[0];
    if (result !== undefined) return result.path;
    paths = paths.flatMap(({ path, version }) => {
      const bareVersion = withoutGroup(version);
      const nextSteps = steps.filter(
        (step) => !visitedSteps.has(step) && withoutGroup(step.rule.fromVersion) === bareVersion,
      );
      // Another path of the same length may lead there, too: one is enough.
      for (const step of nextSteps) visitedSteps.add(step);
      return nextSteps.map((step) => ({ path: [...path, step], version: step.rule.toVersion }));
    });
  }
  return undefined;
}

/** The problem of a hook whose output does not answer the review; undefined if it does. A refusal with a message of the hook is an answer. */
export function answerProblem(
  { name }: Pick<Hook, "name">,
  { type, request }: Pick<ReviewTrigger, "type" | "request">,
  answers: HookAnswers,
): string | undefined {
  const isConversion = type === "conversion";
  const answer = isConversion ? answers.conversion : answers.admission;
  const variable = isConversion ? "CONVERSION_RESPONSE_PATH" : "ADMISSION_RESPONSE_PATH";
  if (answer === undefined) return `hook ${name} wrote no response: the file at ${variable} is empty`;
  if (!("convertedObjects" in answer) || answer.failedMessage !== undefined) return undefined;
  const count = answer.convertedObjects.length;
  const wantedCount = objectsIn(request["objects"]).length;
  if (count === wantedCount) return undefined;
  return `hook ${name} returned ${count} objects instead of ${wantedCount}`;
}
