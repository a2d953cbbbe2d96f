import { readdirSync, readFileSync } from "node:fs";

import { describe, expect, test } from "vitest";

import { isTest } from "./titles.ts";

const docs = new URL("../../docs/", import.meta.url);
const tests = new URL("../", import.meta.url);

interface Statement {
  readonly text: string;
  readonly shownBy: readonly string[];
}

/** Rows of the tables whose last column is `shown by`. */
function statements(page: string): Statement[] {
  const text = readFileSync(new URL(page, docs), "utf8");
  return text
    .split(/\n\n/)
    .filter((block) => /^\|.* \| shown by \|\n/.test(block))
    .flatMap((block) => block.trim().split("\n").slice(2))
    .map((row) => {
      const cells = row.slice(1, -1).split(" | ");
      const shownBy = [...(cells.at(-1) ?? "").matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
      return { text: (cells[0] ?? "").trim(), shownBy };
    });
}

describe.each(["DECISIONS.md", "LIFECYCLE.md", "MODULES.md"])("docs/%s", (page) => {
  const all = statements(page);

  test("is made of statements", () => {
    expect(all.length).toBeGreaterThan(15);
  });

  test.each(all)("$text", ({ shownBy }) => {
    expect(shownBy.length).toBeGreaterThan(0);
    expect(shownBy.filter((reference) => !isTest(reference))).toEqual([]);
  });
});

test("each numbered step of the life cycle has tests that begin with its number", () => {
  const dir = new URL("engine/", tests);
  const sources = readdirSync(dir).map((file) => readFileSync(new URL(file, dir), "utf8"));
  const numbers = sources.flatMap((source) =>
    [...source.matchAll(/["'](\d+): /g)].map(([, number]) => Number(number)),
  );
  const missing = Array.from({ length: 16 }, (_, index) => index + 1).filter(
    (each) => !numbers.includes(each),
  );
  expect(missing).toEqual([]);
});

test("README.md leads to every page", () => {
  const readme = readFileSync(new URL("../README.md", docs), "utf8");
  expect(readdirSync(docs).filter((page) => !readme.includes(`(docs/${page})`))).toEqual([]);
});
