import { readFile } from "node:fs/promises";

import { expect, test } from "vitest";

const read = (name: string): Promise<string> => readFile(new URL(`../../${name}`, import.meta.url), "utf8");
/** The first cell of a row. */
const ROW = /^\| (`[^|]+) \|/gm;

test("CONTRIBUTING.md lists every dependency of the program, and no other", async () => {
  const { dependencies, optionalDependencies } = JSON.parse(await read("package.json")) as Record<
    "dependencies" | "optionalDependencies",
    Record<string, string>
  >;
  const [, table = ""] = (await read("CONTRIBUTING.md")).split("\n## Dependencies\n");
  const cells = [...table.matchAll(ROW)].map(([, cell = ""]) => cell);
  const names = (of: readonly string[]): string[] =>
    of.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name)).toSorted();
  const optional = cells.filter((cell) => cell.endsWith("(optional)"));
  expect(names(cells.filter((cell) => !optional.includes(cell)))).toEqual(
    Object.keys(dependencies).toSorted(),
  );
  expect(names(optional)).toEqual(Object.keys(optionalDependencies).toSorted());
});
