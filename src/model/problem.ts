/** Problems that users have to fix. */

import type { Question } from "./question.ts";

/**
 * Something that a user has to fix: the error, its place, and the remedy.
 * `file` is a path on disk or `ConfigMap <name>`; `key` is a key, path or line within it.
 */
export interface Problem {
  readonly file: string;
  readonly key?: string;
  readonly message: string;
  readonly remedy?: string;
  /** Set if the operator itself tries again to solve it: the reason in the status. */
  readonly retriedAs?: "SourceUnavailable";
  /** Set while nothing is wrong: the operator has just begun to solve it. */
  readonly isExpected?: true;
  /** Set if a confirmation solves it. */
  readonly question?: Question;
}

/** A problem in one line: `file: key: message (remedy)`. */
export function describeProblem(problem: Problem): string {
  const where = problem.key === undefined ? problem.file : `${problem.file}: ${problem.key}`;
  return `${where}: ${problem.message}${problem.remedy === undefined ? "" : ` (${problem.remedy})`}`;
}

/** An error that carries one or more problems; its message has one line for each. */
export class ProblemError extends Error {
  readonly problems: readonly Problem[];

  constructor(...problems: readonly Problem[]) {
    super(problems.map(describeProblem).join("\n"));
    this.name = "ProblemError";
    this.problems = problems;
  }
}

/** Returns the result of `work`. If it throws a ProblemError, adds the problems to the list and returns undefined, so that all are reported at once. */
export function collect<T>(problems: Problem[], work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    problems.push(...error.problems);
    return undefined;
  }
}
