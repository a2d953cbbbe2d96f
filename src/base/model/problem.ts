/** Problems that users have to fix. */

/** The annotation that confirms a change which waits for a user, the value that it must have, and the command that sets it. */
export interface Question {
  readonly annotation: string;
  readonly token: string;
  readonly command: string;
}

/** Something that a user has to fix. `file` is a path on disk or `ConfigMap <name>`; `key` is a key, path or line within it. */
export interface Problem {
  readonly file: string;
  readonly key?: string;
  readonly message: string;
  readonly remedy?: string;
  /** Set if the operator itself tries again to solve it: the reason in the status. */
  readonly retriedAs?: "SourceUnavailable" | "ScriptFailed";
  /** Set while nothing is wrong: the operator has just begun to solve it. */
  readonly isExpected?: true;
  /** Set if a confirmation solves it. */
  readonly question?: Question;
}

/** A problem in one line: `file: key: message (remedy)`. */
export function describeProblem(problem: Problem): string {
  const { file, key, message, remedy } = problem;
  const location = key === undefined ? file : `${file}: ${key}`;
  return `${location}: ${message}${remedy === undefined ? "" : ` (${remedy})`}`;
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

/** The result of `work`; undefined if it throws a ProblemError, whose problems are added to the list. So a user gets all problems at once. */
export function collect<T>(problems: Problem[], work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    problems.push(...error.problems);
    return undefined;
  }
}
