import { readFileSync } from "node:fs";

/** The inputs of a kind of text, by what is special about each: every run feeds them first, and makes the others from them. */
export function readCorpus(kind: string): Readonly<Record<string, string>> {
  const file = new URL(`corpus/${kind}.json`, import.meta.url);
  return JSON.parse(readFileSync(file, "utf8")) as Record<string, string>;
}
