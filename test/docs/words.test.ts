import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

// A page is for reading: it has a length that a reader gets through, and each fact has one page.

const docs = join(import.meta.dirname, "../../docs");

/** Words of a page at most. */
const LIMIT = 3_000;
/** Pages for looking up single fields, with limits of their own. */
const LONGER: Readonly<Record<string, number>> = {
  "reference/hooks.md": 5_000,
  "reference/status.md": 4_000,
};
/** Words of all pages at most. */
const TOTAL = 50_000;

/** The page that the program prints as a whole (test/docs/cli.test.ts). */
const PRINTED = "reference/cli.md";

/** Counts what people write: without the parts that a script or a test makes, which stand between two comments. */
function wordsOf(text: string): number {
  const written = text.replaceAll(/^<!-- (?:generated|captured|made by)[^]*?^<!-- end/gm, "");
  return written.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

const words = new Map(
  globSync("**/*.md", { cwd: docs, exclude: [PRINTED] })
    .toSorted()
    .map((path) => [path, wordsOf(readFileSync(join(docs, path), "utf8"))]),
);

test("words are those outside of generated parts", () => {
  const text = "# A page\n\n| one | - |\n\n<!-- generated: keys -->\n\n| two |\n\n<!-- end -->\n\nThree\n";
  expect(wordsOf(text)).toBe(4);
});

test.each([...words])("%s has %i words", (path, count) => {
  expect(count).toBeLessThanOrEqual(LONGER[path] ?? LIMIT);
});

test("so have all pages together", () => {
  const total = [...words.values()].reduce((sum, count) => sum + count, 0);
  expect(total).toBeLessThanOrEqual(TOTAL);
});
