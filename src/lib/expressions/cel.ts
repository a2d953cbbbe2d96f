/** Expressions in CEL over one object: from files that are trusted, for objects that are not. */

import { createContext, Script, type Context } from "node:vm";

import { oneLine } from "../errors.ts";
import { systemClock } from "../time/clock.ts";

/** Whether an object meets an expression; if not, the reason, which contains no data of the object. */
export type CelTest = (object: unknown) => { readonly isMet: boolean; readonly why?: string };

/** Result for an expression that exceeds its time limit or the shared budget; may be evaluated again later. */
export const TOO_LONG = { isMet: false, why: "takes too long" } as const;

/** Limit of the processor time of one evaluation. */
const LONGEST_MS = 100;
/** Limit of its time, on a machine that is so busy that an evaluation waits for a processor. */
const LONGEST_WAIT_MS = 1600;
const LIMITS = { maxAstNodes: 1000, maxDepth: 50, maxListElements: 100, maxMapEntries: 100 };

/** Share of the time for all slow expressions together, and the burst in milliseconds. */
const SHARE = 0.1;
const RESERVE_MS = 1000;
/** Evaluations below this time are not slow. */
const SLOW_MS = 5;

/** Error messages that contain only types and no data of the object. */
const OVERLOAD = /^no such overload\b[^\n]*/;
const KEY = /^No such key: ([\w.-]{1,100})(?:\n|$)/;

/** Compiles an expression over `object`. Loads the library with the first one. Throws an Error for an invalid expression. */
export async function compileCel(text: string): Promise<CelTest> {
  const { Environment } = await import("@marcbachmann/cel-js");
  const options = { unlistedVariablesAreDyn: false, homogeneousAggregateLiterals: false, limits: LIMITS };
  const language = new Environment(options).registerVariable("object", "map");
  const evaluate = compiled(() => language.parse(text));
  const { type, error } = evaluate.check();
  if (error !== undefined) throw new Error(firstLine(error));
  if (type !== "bool" && type !== "dyn") throw new Error(`is no condition: it gives a ${String(type)}`);
  let isSlow = false;
  return (object) => {
    if (isSlow && !budget.allows()) return TOO_LONG;
    const from = workedMs();
    const answer = judge(() => evaluate({ object }), text);
    const ms = workedMs() - from;
    isSlow = ms > SLOW_MS;
    if (isSlow) budget.spend(ms);
    return answer;
  };
}

/** CPU time of this thread in milliseconds, so that waiting for a busy machine does not count. */
function workedMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** A token bucket of CPU time for slow expressions, so that they do not block the operator: one, as the thread is. */
const budget = {
  left: RESERVE_MS,
  at: 0,
  allows(): boolean {
    const now = systemClock.monotonic();
    this.left = Math.min(RESERVE_MS, this.left + (now - this.at) * SHARE);
    this.at = now;
    return this.left > 0;
  },
  spend(ms: number): void {
    this.allows();
    this.left -= ms;
  },
};

function compiled<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new Error(firstLine(error), { cause: error });
  }
}

function firstLine(error: unknown): string {
  return oneLine(error instanceof Error ? (error.message.split("\n")[0] ?? "") : error);
}

function judge(evaluate: () => unknown, text: string): ReturnType<CelTest> {
  try {
    const answer = timed(evaluate);
    if (typeof answer === "boolean") return { isMet: answer };
    return { isMet: false, why: "gives neither true nor false" };
  } catch (error) {
    const { code, message = "" } = error as { code?: unknown; message?: string };
    if (code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return TOO_LONG;
    return { isMet: false, why: `fails: ${reported(message, text)}` };
  }
}

/** An error message that names a key only if the expression does: other keys come from the object, which may be a Secret. */
function reported(message: string, text: string): string {
  const key = KEY.exec(message)?.[1];
  if (key !== undefined && namesIn(text).has(key)) return `No such key: ${key}`;
  return OVERLOAD.exec(message)?.[0] ?? "it does not fit the object";
}

function namesIn(text: string): ReadonlySet<string> {
  return new Set(text.match(/[\w.-]+/g)?.flatMap((word) => [word, ...word.split(".")]));
}

const CALL = new Script("evaluate()");
/** Made once, when it is first needed: a context of V8 takes a millisecond and some memory. */
let context: (Context & { evaluate?: () => unknown }) | undefined;

/**
 * Runs `evaluate` as a script with a timeout: only V8's watchdog can interrupt code in this thread. The watchdog counts
 * the time that passes, so an evaluation that mostly waited for a processor is run again with twice the timeout.
 */
function timed(evaluate: () => unknown, timeout = LONGEST_MS): unknown {
  context ??= createContext({});
  context.evaluate = evaluate;
  const from = workedMs();
  try {
    return CALL.runInContext(context, { timeout });
  } catch (error) {
    const isTimeout = (error as { code?: unknown }).code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
    if (!isTimeout || timeout >= LONGEST_WAIT_MS || workedMs() - from > LONGEST_MS / 2) throw error;
    return timed(evaluate, 2 * timeout);
  } finally {
    delete context.evaluate;
  }
}
