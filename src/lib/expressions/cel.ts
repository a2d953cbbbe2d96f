/** Expressions in CEL over one object: from files that are trusted, for objects that are not. */

import { createContext, Script, type Context } from "node:vm";

import type { Environment } from "@marcbachmann/cel-js";

import { oneLine } from "../errors.ts";
import { systemClock } from "../time/clock.ts";

/** Whether an object meets an expression; else why not, in words that tell nothing of the object. */
export type CelTest = (object: unknown) => { readonly isMet: boolean; readonly why?: string };

/** What is said of an expression that takes too long, alone or with all others: it is worth another look. */
export const TOO_LONG = { isMet: false, why: "takes too long" } as const;

/** An expression runs no longer than this, whatever the object holds. */
const LONGEST_MS = 100;
const LIMITS = { maxAstNodes: 1000, maxDepth: 50, maxListElements: 100, maxMapEntries: 100 };

/** All slow expressions together get this part of the time, with so many milliseconds in reserve. */
const SHARE = 0.1;
const RESERVE_MS = 1000;
/** What takes less work than this is not slow. */
const SLOW_MS = 5;

/** Types only, not what an object holds. */
const OVERLOAD = /^no such overload\b[^\n]*/;
const KEY = /^No such key: ([\w.-]{1,100})(?:\n|$)/;

let loaded: Promise<Environment> | undefined;

async function load(): Promise<Environment> {
  const cel = await import("@marcbachmann/cel-js");
  const language = new cel.Environment({
    unlistedVariablesAreDyn: false,
    homogeneousAggregateLiterals: false,
    limits: LIMITS,
  });
  return language.registerVariable("object", "map");
}

/** Compiles an expression over `object`. Loads the library with the first one. Throws an Error that says what is wrong. */
export async function compileCel(text: string): Promise<CelTest> {
  const language = await (loaded ??= load());
  const evaluate = compiled(() => language.parse(text));
  const { type, error } = evaluate.check();
  if (error !== undefined) throw new Error(firstLine(error));
  if (type !== "bool" && type !== "dyn") throw new Error(`is no condition: it gives a ${String(type)}`);
  let isSlow = false;
  return (object) => {
    if (isSlow && !budget.allows()) return TOO_LONG;
    const from = { work: workedMs(), time: systemClock.monotonic() };
    const answer = judge(() => evaluate({ object }), text);
    isSlow = workedMs() - from.work > SLOW_MS;
    if (isSlow) budget.spend(systemClock.monotonic() - from.time);
    return answer;
  };
}

/** Milliseconds that this thread has worked: what waited for a processor on a busy machine is not slow. */
function workedMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Says no to slow expressions, until time has passed; so they never keep the operator from its other work. */
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
    return { isMet: false, why: `fails: ${told(message, text)}` };
  }
}

/** A key is named only where the expression names it: another one comes from the object, which may be a Secret. */
function told(message: string, text: string): string {
  const key = KEY.exec(message)?.[1];
  if (key !== undefined && namesIn(text).has(key)) return `No such key: ${key}`;
  return OVERLOAD.exec(message)?.[0] ?? "it does not fit the object";
}

function namesIn(text: string): ReadonlySet<string> {
  return new Set(text.match(/[\w.-]+/g)?.flatMap((word) => [word, ...word.split(".")]));
}

const CALL = new Script("evaluate()");
let context: (Context & { evaluate?: () => unknown }) | undefined;

/** The only way to end what runs in this thread is V8's own watchdog, which such a script has. */
function timed(evaluate: () => unknown): unknown {
  context ??= createContext({});
  context.evaluate = evaluate;
  try {
    return CALL.runInContext(context, { timeout: LONGEST_MS });
  } finally {
    delete context.evaluate;
  }
}
