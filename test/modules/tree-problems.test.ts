import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, expect, test } from "vitest";

import type { Tree } from "../../src/base/model/index.ts";
import { ChartArchives, readTree } from "../../src/modules/index.ts";
import { reportTree } from "../../src/modules/tree-problems.ts";
import { keepLog } from "../support/logged.ts";
import type { LoggedLine } from "../support/logged.ts";

let root: string;
let lines: LoggedLine[];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "tell-tree-"));
  lines = [];
  mkdirSync(join(root, "010-web"));
  values("web: { replicas: 1 }\n");
});

afterEach(() => rmSync(root, { recursive: true }));

const path = (file: string): string => join(root, "010-web", file);
const values = (text: string): void => writeFileSync(path("values.yaml"), text);

async function read(previous?: Tree): Promise<Tree> {
  const tree = await readTree({
    modulesDirs: [root],
    globalHooksDir: undefined,
    unnumberedOrder: 100,
    strict: false,
    previous,
    archives: new ChartArchives(join(root, "tmp")),
  });
  lines.length = 0;
  reportTree(keepLog(lines), tree, previous);
  return tree;
}

test("a script that is not executable is warned of with its module, once", async () => {
  writeFileSync(path("enabled"), "#!/bin/sh\n");
  chmodSync(path("enabled"), 0o644);
  const first = await read();
  const remedy = `chmod +x ${path("enabled")}`;
  expect(lines).toEqual([
    ["warn", `${path("enabled")}: is not executable and will not run (${remedy})`, { module: "web" }],
  ]);
  await read(first);
  expect(lines).toEqual([]);
});

test("a key that stands twice in a module's values.yaml is warned of", async () => {
  values("web: { replicas: 1, replicas: 2 }\n");
  await read();
  expect(lines).toEqual([["warn", expect.stringContaining("replicas"), { module: "web" }]]);
});

test("a values.yaml of more than 1 MiB is not parsed, and its module is broken", async () => {
  values(`web: { text: "${"x".repeat(1024 * 1024)}" }\n`);
  const tree = await read();
  const problem = { file: path("values.yaml"), message: "is larger than 1 MiB", remedy: "make it smaller" };
  expect(tree.modules[0]?.problem).toEqual(problem);
});

test("a file of a module that breaks later is an error, and its mending is reported", async () => {
  const good = await read();
  expect(lines).toEqual([]);
  values("web: { replicas: 1\n");
  const broken = await read(good);
  expect(lines).toEqual([
    [
      "error",
      "The files of a module are broken",
      expect.objectContaining({ module: "web", file: path("values.yaml") }),
    ],
  ]);
  await read(broken);
  expect(lines).toEqual([]);
  values("web: { replicas: 2 }\n");
  await read(broken);
  expect(lines).toEqual([["info", "The files of a module are in order again", { module: "web" }]]);
});

test("a common file that breaks later is an error, once", async () => {
  const good = await read();
  writeFileSync(join(root, "values.yaml"), "global: [\n");
  const broken = await read(good);
  expect(lines).toEqual([
    [
      "error",
      "A common file is broken; its last good content stays in force",
      expect.objectContaining({ file: join(root, "values.yaml") }),
    ],
  ]);
  await read(broken);
  expect(lines).toEqual([]);
});

test("modules whose content is awaited are counted in one line, and nothing is said when it is there", async () => {
  const good = await read();
  const [web] = good.modules;
  if (web === undefined) throw new Error("no module");
  const problem = { file: "ModuleSource p", message: "not yet", retriedAs: "SourceUnavailable" } as const;
  const awaited = ["web", "db"].map((name) => ({
    ...web,
    name,
    problem: { ...problem, isExpected: true } as const,
  }));
  reportTree(keepLog(lines), { ...good, modules: awaited });
  reportTree(keepLog(lines), { ...good, modules: awaited }, { ...good, modules: awaited });
  reportTree(keepLog(lines), good, { ...good, modules: awaited });
  expect(lines).toEqual([["info", "Modules wait for their content", { modules: 2 }]]);
  lines.length = 0;
  reportTree(keepLog(lines), { ...good, modules: [{ ...web, problem }] }, { ...good, modules: awaited });
  expect(lines).toEqual([["warn", "A module has no content", { module: "web", ...problem }]]);
});
