import { readFileSync, readdirSync } from "node:fs";

import { describe, expect, test } from "vitest";

import { statementsOf } from "./pages.ts";
import { isTest } from "./titles.ts";

// Each page has a file in statements/: how its statements begin, and below each the tests that would fail if it were
// false (`–` where nothing can be false: words that lead to an example, advice, a pointer to another page).

const read = (path: string): string => readFileSync(new URL(path, import.meta.url), "utf8");
/**
 * Pages that tell what is promised and why, and what others do; what holds of it is on the other pages. The table of
 * docs/COMPATIBILITY.md is made by a run of the tests, docs/CLI.md by test/docs/cli.test.ts.
 */
const WITHOUT = ["CLI", "COMPARISON", "COMPATIBILITY", "CONTRACT", "DECISIONS"];
const pages = readdirSync(new URL("statements/", import.meta.url)).map((file) => file.replace(".txt", ""));

/** How a statement begins, and its tests. Rows of tables and blocks of code may share one. */
interface Entry {
  readonly section: string;
  readonly beginning: string;
  readonly shownBy: string[];
}

function entriesOf(text: string): Entry[] {
  const entries: Entry[] = [];
  let section = "";
  for (const line of text.split("\n").filter((each) => each !== "")) {
    if (line.startsWith("  ")) entries.at(-1)?.shownBy.push(line.trim());
    else if (line.startsWith("# ")) section = line.slice(2);
    else entries.push({ section, beginning: line, shownBy: [] });
  }
  return entries;
}

test("every page has its file", () => {
  const all = readdirSync(new URL("../../docs/", import.meta.url)).map((file) => file.replace(".md", ""));
  expect(all.filter((page) => !WITHOUT.includes(page))).toEqual(pages);
});

describe.each(pages)("docs/%s.md", (page) => {
  const entries = entriesOf(read(`statements/${page}.txt`));
  const statements = statementsOf(read(`../../docs/${page}.md`));
  const found = statements.map(({ section, text }) => {
    const [longest] = entries
      .filter((entry) => entry.section === section && text.startsWith(entry.beginning))
      .toSorted((a, b) => b.beginning.length - a.beginning.length);
    return { section, text, longest };
  });

  test(`each statement names its tests in test/docs/statements/${page}.txt`, () => {
    const missing = found.filter(({ longest }) => longest === undefined);
    expect(missing.map(({ section, text }) => `${section}: ${text}`)).toEqual([]);
  });

  test("there is a statement for each name", () => {
    const isShared = ({ beginning }: Entry): boolean => /^(\||```)/.test(beginning);
    const wrong = entries.filter((entry) => {
      const count = found.filter(({ longest }) => longest === entry).length;
      return count === 0 || (count > 1 && !isShared(entry));
    });
    expect(wrong.map(({ section, beginning }) => `${section}: ${beginning}`)).toEqual([]);
  });

  test("the tests are there, and not skipped", () => {
    const named = entries.flatMap(({ beginning, shownBy }) =>
      (shownBy.length === 0 ? [""] : shownBy).map((reference) => ({ beginning, reference })),
    );
    expect(named.filter(({ reference }) => reference !== "–" && !isTest(reference))).toEqual([]);
  });
});
