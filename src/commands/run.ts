/** Runs a command line, and turns what went wrong into an exit code. */

import { UsageError } from "../config.ts";
import { ProblemError } from "../model/index.ts";
import { NoOperatorError } from "./asking/call.ts";
import { fitted } from "./line/help.ts";
import { parseLine } from "./line/parse.ts";
import type { World } from "./table/row.ts";

const REFUSED = 1;
const USAGE = 2;

/** The exit code of a command line: 0 it went well or was stopped on request. Throws what `exitCodeOf` knows. */
export async function runLine(args: readonly string[], world: World): Promise<number> {
  const parsed = parseLine(args, world.env);
  if ("help" in parsed) {
    world.print(fitted(parsed.help, world.columns));
    return 0;
  }
  return parsed.row.run(parsed, world);
}

/**
 * 1 refused to start or the call failed, 2 wrong usage; undefined for what is no mistake of the user or the environment:
 * a bug.
 */
export function exitCodeOf(error: unknown): number | undefined {
  if (error instanceof UsageError) return USAGE;
  return error instanceof NoOperatorError || error instanceof ProblemError ? REFUSED : undefined;
}
