/** Expressions in CEL over one object: from files that are trusted, for objects that are not. */

import { createContext, Script, type Context } from "node:vm";

import type { Environment } from "@marcbachmann/cel-js";

import { oneLine } from "../error-text.ts";

/** Whether an object meets an expression; else why not, in words that tell nothing of the object. */
export type CelTest = (object: unknown) => { readonly isMet: boolean; readonly why?: string };

/** An expression runs no longer than this, whatever the object holds. */
const LONGEST_MS = 100;
const LIMITS = { maxAstNodes: 1000, maxDepth: 50, maxListElements: 100, maxMapEntries: 100 };

/** Errors that name keys and types only, not what an object holds. */
const TELLING = /^(No such key|no such overload)\b[^\n]*/;

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
  return (object) => judge(() => evaluate({ object }));
}

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

function judge(evaluate: () => unknown): ReturnType<CelTest> {
  try {
    const answer = timed(evaluate);
    if (typeof answer === "boolean") return { isMet: answer };
    return { isMet: false, why: "gives neither true nor false" };
  } catch (error) {
    const { code, message = "" } = error as { code?: unknown; message?: string };
    if (code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return { isMet: false, why: "takes too long" };
    return { isMet: false, why: `fails: ${TELLING.exec(message)?.[0] ?? "it does not fit the object"}` };
  }
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
