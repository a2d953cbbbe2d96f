/**
 * CEL expressions that test one Kubernetes object, or values of a module. Modules, which are trusted, contain the expressions; the objects
 * and values are not trusted: an evaluation may take long, and its error must not quote them.
 */

import type { Environment } from "@marcbachmann/cel-js";

import { mapExactNumbers, type Json } from "../model/index.ts";
import { oneLine } from "../errors.ts";
import { isTimeLimitError, SlowWorkBudget, runWithTimeLimit, threadCpuMs } from "../time/timed.ts";

/** Whether an object meets an expression; if not, the reason, which contains no data of the object. */
export type CelTest = (object: unknown) => { readonly isMet: boolean; readonly why?: string };

/** Result for an expression that exceeds its time limit or the shared budget; may be evaluated again later. */
export const TOO_LONG = { isMet: false, why: "takes too long" } as const;

/** Limit of one evaluation, on a busy machine also of the time that it waits for a processor. */
const TIME_LIMIT = { workMs: 100, waitMs: 1600 };
const PARSER_LIMITS = { maxAstNodes: 1000, maxDepth: 50, maxListElements: 100, maxMapEntries: 100 };

/** Evaluations below this time are not slow. */
const SLOW_MS = 5;

/** The error of an operator that the types of its operands do not have. It names only types, no data of the object. */
const WRONG_TYPE_MESSAGE = /^no such overload\b[^\n]*/;
/** The error of a missing key. The key may be data of the object. */
const MISSING_KEY_MESSAGE = /^No such key: ([\w.-]{1,100})(?:\n|$)/;

/**
 * Compiles a CEL expression over the variable `object`. Loads the library at the first call. Throws an Error for an expression
 * that is invalid or yields no boolean. An expression whose last evaluation was slow runs again only while the budget that all slow
 * expressions share (`slowEvaluations`) has time left; else its result is `TOO_LONG`.
 */
export async function compileCel(expression: string): Promise<CelTest> {
  await loadCel();
  const language = createLanguage()?.registerVariable("object", "map");
  if (language === undefined) throw new Error("the CEL library is missing");
  const evaluate = parseExpression(() => language.parse(expression));
  const { type, error } = evaluate.check();
  if (error !== undefined) throw new Error(firstMessageLine(error));
  if (type !== "bool" && type !== "dyn") throw new Error(`is no condition: it gives a ${String(type)}`);
  let wasSlow = false;
  return (object) => {
    if (wasSlow && !slowEvaluations.isLeft()) return TOO_LONG;
    const from = threadCpuMs();
    const { lacksKey: _, ...answer } = evaluateWithinLimit(
      () => evaluate({ object: toCelValue(object) }),
      expression,
    );
    const ms = threadCpuMs() - from;
    wasSlow = ms > SLOW_MS;
    if (wasSlow) slowEvaluations.spend(ms);
    return answer;
  };
}

/** The object with integers that JavaScript would round as `int` of CEL. */
function toCelValue(object: unknown): Json {
  return mapExactNumbers(object as Json, (number) => {
    const isInt = /^-?\d+$/.test(number.text) && Math.abs(Number(number)) < MAX_CEL_INT;
    // The types of JSON have no BigInt, which is the `int` of the library.
    return isInt ? (BigInt(number.text) as unknown as Json) : Number(number);
  });
}

const MAX_CEL_INT = 2 ** 63;

/** The library, which takes time and memory to load. */
let library: { readonly Environment: typeof Environment } | undefined;

/** Loads the library, so that `compileCelRule` can be called. */
export async function loadCel(): Promise<void> {
  library ??= await import("@marcbachmann/cel-js");
}

/** The language without variables; undefined before the library is loaded. */
function createLanguage() {
  if (library === undefined) return undefined;
  const options = {
    unlistedVariablesAreDyn: false,
    homogeneousAggregateLiterals: false,
    limits: PARSER_LIMITS,
  };
  return new library.Environment(options);
}

/**
 * Tests a value by a rule, with the value in force (`old`). Returns undefined if the value meets the rule, "" if not, or why the rule cannot be
 * evaluated. As in the Go operator, a rule does not apply where a key is missing, and one with `oldSelf` not without a value in force.
 */
export type CelRule = (value: unknown, old: unknown) => string | undefined;

/** Compiles a rule over the variables `self` and `oldSelf`; returns why that is impossible. The library must be loaded (`loadCel`). */
export function compileCelRule(expression: string): CelRule | string {
  const language = createLanguage()?.registerVariable("self", "dyn").registerVariable("oldSelf", "dyn");
  if (language === undefined) return "the CEL library is not loaded";
  try {
    const evaluate = parseExpression(() => language.parse(expression));
    const isTransition = /\boldSelf\b/.test(expression);
    return (self, oldSelf) => {
      if (isTransition && oldSelf === undefined) return undefined;
      const variables = {
        self: toCelValue(self),
        oldSelf: oldSelf === undefined ? null : toCelValue(oldSelf),
      };
      const { isMet, why = "", lacksKey } = evaluateWithinLimit(() => evaluate(variables), expression);
      return isMet || lacksKey === true ? undefined : why;
    };
  } catch (error) {
    return oneLine(error);
  }
}

/** Processor time for all slow expressions together, so that they do not block the operator. */
const slowEvaluations = new SlowWorkBudget();

/** Calls the parser of the library. Its errors print the expression in several lines; callers get only the first one. */
function parseExpression<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new Error(firstMessageLine(error), { cause: error });
  }
}

/** The first line of an error's message: the library appends the expression in further lines. */
function firstMessageLine(error: unknown): string {
  return oneLine(error instanceof Error ? (error.message.split("\n")[0] ?? "") : error);
}

/** Evaluates an expression once. Never throws: an error becomes the reason why the object does not meet the expression. */
function evaluateWithinLimit(
  evaluate: () => unknown,
  expression: string,
): ReturnType<CelTest> & { readonly lacksKey?: boolean } {
  try {
    const answer = runWithTimeLimit(evaluate, TIME_LIMIT);
    if (typeof answer === "boolean") return { isMet: answer };
    return { isMet: false, why: "gives neither true nor false" };
  } catch (error) {
    if (isTimeLimitError(error)) return TOO_LONG;
    const { message = "" } = error as { message?: string };
    const lacksKey = message.startsWith("No such key");
    return { isMet: false, why: `fails: ${messageWithoutData(message, expression)}`, lacksKey };
  }
}

/** An error message of the CEL library without data of the object, which may be a Secret: names a missing key only if it is in the expression. */
function messageWithoutData(message: string, expression: string): string {
  const key = MISSING_KEY_MESSAGE.exec(message)?.[1];
  if (key !== undefined && readNames(expression).has(key)) return `No such key: ${key}`;
  return WRONG_TYPE_MESSAGE.exec(message)?.[0] ?? "it does not fit the object";
}

/** The words of an expression, dotted ones also by their parts: `a.b` yields `a.b`, `a` and `b`. */
function readNames(expression: string): ReadonlySet<string> {
  return new Set(expression.match(/[\w.-]+/g)?.flatMap((word) => [word, ...word.split(".")]));
}
