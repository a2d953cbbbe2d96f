/** What offline sub-commands need around them: log, children, clean-up. */

import { writeSync } from "node:fs";
import { readFile } from "node:fs/promises";

import type { Environment, Settings } from "../config.ts";

import { FilterEngine } from "../filter/index.ts";
import { hookEnvironment, type AskOptions } from "../hooks/index.ts";
import { Scope, createLogger, oneLine, systemClock, type Logger } from "../lib/index.ts";
import { ProblemError } from "../model/index.ts";
import { endChildren } from "../process/index.ts";

const GRACE_MS = 3000;

/** What a sub-command printed, and its exit code. */
export interface Printed {
  readonly text: string;
  readonly code: number;
}

/** Does the work of a sub-command; then ends its children and releases what it acquired. */
export async function scoped<T>(work: (scope: Scope) => Promise<T>): Promise<T> {
  const scope = new Scope();
  try {
    return await work(scope);
  } finally {
    await endChildren(GRACE_MS);
    await scope.close();
  }
}

/** The text of a file that was given. Throws ProblemError. */
export async function readGiven(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new ProblemError([{ file, message: `cannot be read: ${oneLine(error)}` }]);
  }
}

/** Log lines of offline sub-commands go to stderr: stdout is for their results. */
export function stderrLogger(settings: Settings): Logger {
  const write = (line: string): void => void writeSync(2, line);
  return createLogger({ level: settings.logLevel, type: "text", noTime: true, clock: systemClock, write });
}

/** Everything that is needed to ask hooks for their configuration, checks included. */
export function askOptions(settings: Settings, environment: Environment, scope: Scope): AskOptions {
  const logger = stderrLogger(settings);
  const filters = scope.own(
    new FilterEngine({ jqBin: settings.jqBin, env: environment, clock: systemClock, logger }),
  );
  return {
    env: hookEnvironment(environment),
    workingDir: settings.workingDir,
    checkFilter: (filter) => filters.compile(filter),
  };
}
