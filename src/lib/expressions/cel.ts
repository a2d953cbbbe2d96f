/** Expressions in CEL over one object: from files that are trusted, for objects that are not. */

import { oneLine } from "../errors.ts";
import { isTooLong, SlowWork, timed, workedMs } from "../time/timed.ts";

/** Whether an object meets an expression; if not, the reason, which contains no data of the object. */
export type CelTest = (object: unknown) => { readonly isMet: boolean; readonly why?: string };

/** Result for an expression that exceeds its time limit or the shared budget; may be evaluated again later. */
export const TOO_LONG = { isMet: false, why: "takes too long" } as const;

/** Limit of one evaluation, on a busy machine also of the time that it waits for a processor. */
const LIMIT = { workMs: 100, waitMs: 1600 };
const LIMITS = { maxAstNodes: 1000, maxDepth: 50, maxListElements: 100, maxMapEntries: 100 };

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
    const answer = answerOf(() => evaluate({ object }), text);
    const ms = workedMs() - from;
    isSlow = ms > SLOW_MS;
    if (isSlow) budget.spend(ms);
    return answer;
  };
}

/** Of all slow expressions, so that they do not block the operator. */
const budget = new SlowWork();

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

function answerOf(evaluate: () => unknown, text: string): ReturnType<CelTest> {
  try {
    const answer = timed(evaluate, LIMIT);
    if (typeof answer === "boolean") return { isMet: answer };
    return { isMet: false, why: "gives neither true nor false" };
  } catch (error) {
    if (isTooLong(error)) return TOO_LONG;
    const { message = "" } = error as { message?: string };
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
