import { expect, test } from "vitest";

import { titlesIn } from "./titles.ts";

const FILE = `
describe("a group", () => {
  it("runs", () => { say("no title"); });
  it.skip("is skipped", () => {});
  test.todo("is to be written");
  test.each(TABLE)("%s is in a table", () => {});
  test.runIf(linux).each([["one", 1]])(\`%s of \${many}\`, () => {});
});
describe.skip("another", () => { it("is skipped with its group", () => {}); });
const TABLE = ["the first", "the second"];
`;

test("titles are those of tests and groups that run, and of the rows of their tables", () => {
  expect(titlesIn(FILE)).toEqual([
    "a group",
    "runs",
    "%s is in a table",
    "the first is in a table",
    "the second is in a table",
    "%s of …",
    "one of …",
  ]);
});
