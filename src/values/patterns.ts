import { ProblemError, isJsonObject } from "../model/index.ts";
import type { Json } from "../model/index.ts";

/** A repeated group that itself ends in or holds a repetition: matching may take exponential time. */
const NESTED_REPETITION = /\((?:\?:)?[^()]*[*+}][^()]*\)(?:[*+]|\{\d+,\d*\})/;

/** Refuses patterns that do not compile or could run for ages. Throws ProblemError with the path. */
export function checkPatterns(schema: Json | undefined, file: string, path = ""): void {
  if (Array.isArray(schema))
    return schema.forEach((each, index) => checkPatterns(each, file, `${path}/${index}`));
  if (!isJsonObject(schema)) return;
  const pattern = schema["pattern"];
  if (typeof pattern === "string") checkPattern(pattern, file, `${path}/pattern`);
  for (const [key, each] of Object.entries(schema)) {
    if (key === "patternProperties" && isJsonObject(each)) {
      for (const name of Object.keys(each)) checkPattern(name, file, `${path}/patternProperties`);
    }
    if (key !== "default" && key !== "enum" && key !== "example") checkPatterns(each, file, `${path}/${key}`);
  }
}

function checkPattern(pattern: string, file: string, key: string): void {
  const message = problemOf(pattern);
  if (message === undefined) return;
  throw new ProblemError([{ file, key, message, remedy: "write the pattern without nested repetitions" }]);
}

function problemOf(pattern: string): string | undefined {
  try {
    void new RegExp(pattern, "u");
  } catch {
    return "is not a valid regular expression";
  }
  return NESTED_REPETITION.test(pattern) ? "could take for ever to match" : undefined;
}
