/** Reads files as text. */

import { oneLine, readPlain } from "../../lib/index.ts";
import { ProblemError, type Problem } from "../../model/index.ts";

/** The text of a file. Throws ProblemError where it cannot be read. */
export function readText(path: string): string {
  try {
    return readPlain(path).toString("utf8");
  } catch (error) {
    throw new ProblemError([fileProblem(path, error)]);
  }
}

/** The problem of a file or directory that the file system refuses to read. */
export function fileProblem(file: string, error: unknown): Problem {
  return {
    file,
    message: `cannot be read: ${oneLine(error)}`,
    remedy: "check that it exists and its rights",
  };
}

/** The problem of a values.yaml that is missing where it must not be. */
export function missingValues(file: string): Problem {
  const remedy = "add it, or start without --strict-check-values-mode-enabled";
  return { file, message: "is missing", remedy };
}
