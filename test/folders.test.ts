import { globSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

/** What is no folder of `src`: whole scenarios, the outside of the program, and what tests share. */
const OTHERS =
  "scenarios integration e2e fuzz docs scripts deploy shell examples charts page support fixtures".split(" ");

const root = join(import.meta.dirname, "..");
const foldersOf = (top: string): string[] =>
  globSync("**/*/", { cwd: join(root, top) }).map((path) => path.replace(/\/$/, ""));

it("test has no folder that src lacks, except those of CONTRIBUTING", () => {
  const mirrored = foldersOf("test").filter((path) => !OTHERS.includes(path.split("/")[0] ?? ""));
  const source = new Set(foldersOf("src"));
  expect(mirrored.filter((path) => !source.has(path))).toEqual([]);
  expect(mirrored.length).toBeGreaterThan(40);
});

it("a test lies in the sub-folder of the file that it is named after", () => {
  const sources = new Set(globSync("**/*.ts", { cwd: join(root, "src") }));
  const tests = globSync("**/*.test.ts", { cwd: join(root, "test") });
  const misplaced = tests.flatMap((path) => {
    const [top = "", file = ""] = [path.split("/")[0], path.split("/").at(-1)?.replace(".test.ts", ".ts")];
    if (OTHERS.includes(top) || !path.includes("/") || sources.has(path.replace(".test.ts", ".ts")))
      return [];
    const own = [...sources].filter((each) => each.startsWith(`${top}/`) && each.endsWith(`/${file}`));
    return own.map((each) => `${path} belongs to ${each}`);
  });
  expect(misplaced).toEqual([]);
});
