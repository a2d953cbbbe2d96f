import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { parseSync } from "oxc-parser";
import { describe, expect, it } from "vitest";

import { isNode, nodes, type Node } from "./support/syntax.ts";

/** Packages from the lowest layer up: each imports only those before it (src/README.md). */
const PACKAGES =
  "base runtime values kube webhooks modules hooks helm engine config report releases sources surface main".split(
    " ",
  );

/**
 * Parts of packages, each with an index.ts of its own, from the lowest up. A part imports only the parts of its package that
 * precede it. The name of a package stands for its files that belong to no other part.
 */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  base: ["model", ".", "trace", "process"],
  kube: [".", "health", "drift"],
  hooks: ["cron", "filter", "bindings", "."],
  engine: ["state", "queue", "plan", "tasks"],
  report: [".", "metrics"],
  config: ["settings", "."],
  sources: ["registry", "."],
  surface: ["ui", "debug", "preview", "offline", "admit"],
  main: ["wiring", ".", "commands"],
};

/** All parts in their order, as `kube` or `kube/health`. */
const ROOMS = PACKAGES.flatMap((name) =>
  (PARTS[name] ?? ["."]).map((part) => (part === "." ? name : `${name}/${part}`)),
);

/** The entry point, which stands above all. */
const ENTRY = "main.ts";

/** Libraries and built-in modules that one package alone may use. */
const RESERVED: readonly (readonly [RegExp, string])[] = [
  [/^(node:child_process|child_process|execa|koffi)(\/|$)/, "base/process"],
  [/^@kubernetes\/client-node(\/|$)/, "kube"],
  [/^(node:)?timers(\/|$)/, "base"],
  [/^(ajv|ajv-formats)(\/|$)/, "values"],
  [/^@opentelemetry\//, "base/trace"],
  [/^prom-client(\/|$)/, "report/metrics"],
];

interface SourceFile {
  /** Path below src/. */
  readonly path: string;
  readonly room: string;
  readonly imports: readonly string[];
  /** Names that the file declares itself and exports. */
  readonly exports: readonly string[];
  readonly program: unknown;
}

const src = join(import.meta.dirname, "..", "src");
const files = globSync("**/*.ts", { cwd: src })
  .sort()
  .map((path) => read(path, readFileSync(join(src, path), "utf8")));

function read(path: string, text: string): SourceFile {
  const { program, module, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message ?? ""}`);
  const entries = module.staticExports.flatMap((each) => each.entries);
  const reexports = entries.flatMap(({ moduleRequest }) => moduleRequest?.value ?? []);
  const own = entries.filter(({ moduleRequest }) => moduleRequest === null);
  const exports = own.flatMap(({ exportName }) => exportName.name ?? []);
  const imports = module.staticImports.map(({ moduleRequest }) => moduleRequest.value);
  const dynamic = module.dynamicImports.map(({ moduleRequest: { start, end } }) =>
    text.slice(start + 1, end - 1),
  );
  return { path, room: roomOf(path), imports: [...imports, ...reexports, ...dynamic], exports, program };
}

/** The part of a package that a file belongs to, as in ROOMS, or the file itself for the entry point. */
function roomOf(path: string): string {
  const [name = "", part = ""] = path.split("/");
  return PARTS[name]?.includes(part) === true ? `${name}/${part}` : name;
}

/** What a file breaks, in words. */
function importViolations(file: SourceFile): string[] {
  return file.imports.flatMap((specifier) => {
    const broken = specifier.startsWith(".")
      ? localViolation(file, specifier)
      : packageViolation(file, specifier);
    return broken === undefined ? [] : [`${file.path} imports ${specifier}: ${broken}`];
  });
}

function packageViolation(file: SourceFile, specifier: string): string | undefined {
  const owner = RESERVED.find(([pattern]) => pattern.test(specifier))?.[1];
  return owner === undefined || owner === file.room ? undefined : `only ${owner}/ may`;
}

function localViolation(file: SourceFile, specifier: string): string | undefined {
  const target = relative(src, join(src, dirname(file.path), specifier));
  const room = roomOf(target);
  if (room === file.room)
    return target === `${room}/index.ts` ? "a package's files never import their own index.ts" : undefined;
  if (!ROOMS.includes(room)) return "there is no such package";
  if (file.room !== ENTRY && ROOMS.indexOf(room) > ROOMS.indexOf(file.room))
    return `${room} stands above ${file.room}`;
  // The program has no index.ts of the whole: its parts import the files of each other.
  return target === `${room}/index.ts` || room === "main" || room === "main/wiring"
    ? undefined
    : "only its index.ts may be imported";
}

const nameOf = (value: unknown): string =>
  isNode(value) && typeof value["name"] === "string" ? value["name"] : "";

const TIMERS = new Set(["setTimeout", "setInterval"]);

/** Who sets timers of the clock: all others use loops, named timers, and what base/time builds of them. */
const TIMER_USERS = /^(runtime|base\/time)\/|^engine\/queue\/worker\.ts$/;

/** Uses of the environment and of time, which one file alone may have. */
function useViolation(node: Node, path: string): string | undefined {
  const { type } = node;
  if (type === "MemberExpression") {
    const member = `${nameOf(node["object"])}.${nameOf(node["property"])}`;
    if (member === "process.env" && path !== "config/settings/environment.ts")
      return "process.env is read in config/settings/environment.ts only";
    if (nameOf(node["property"]) === "setTimer" && !TIMER_USERS.test(path))
      return "setTimer is for runtime/, base/time/ and the worker of a queue";
    if (member === "Date.now" && path !== "base/time/clock.ts") return "Date.now belongs to base/time";
  }
  if (path === "base/time/clock.ts") return undefined;
  if (type === "CallExpression" && TIMERS.has(nameOf(node["callee"]))) return "timers belong to base/time";
  const args = node["arguments"];
  const isNow = type === "NewExpression" && Array.isArray(args) && args.length === 0;
  return isNow && nameOf(node["callee"]) === "Date"
    ? "new Date() is the time of day: use the clock"
    : undefined;
}

function useViolations(file: SourceFile): string[] {
  return [...nodes(file.program)].flatMap((node) => {
    const broken = useViolation(node, file.path);
    return broken === undefined ? [] : [`${file.path}: ${broken}`];
  });
}

/** An index.ts only re-exports. */
function indexViolations(file: SourceFile): string[] {
  if (!file.path.endsWith("/index.ts")) return [];
  const body = (file.program as { body: readonly Node[] }).body;
  const own = body.filter(({ type, source }) => !String(type).startsWith("Export") || !isNode(source));
  return own.map(() => `${file.path}: an index.ts only re-exports`);
}

/** By path: the files of src that each file imports or re-exports. */
function importsBetween(all: readonly SourceFile[]): ReadonlyMap<string, readonly string[]> {
  const targets = ({ path, imports }: SourceFile): string[] =>
    imports.filter((each) => each.startsWith(".")).map((each) => join(dirname(path), each));
  return new Map(all.map((file) => [file.path, targets(file)]));
}

/** Files that import themselves by way of others: without those that import, or are imported by, no file that is left. */
function cycles(imports: ReadonlyMap<string, readonly string[]>): string[] {
  let left = new Set(imports.keys());
  for (let before = -1; before !== left.size;) {
    before = left.size;
    const targets = new Set([...left].flatMap((path) => imports.get(path) ?? []));
    const isInside = (path: string): boolean =>
      targets.has(path) && (imports.get(path) ?? []).some((target) => left.has(target));
    left = new Set([...left].filter(isInside));
  }
  return [...left];
}

/** Names that several files declare and export, with the files. */
function repeatedExports(sources: readonly SourceFile[]): string[] {
  const declared = sources.flatMap(({ path, exports }) => exports.map((name) => ({ name, path })));
  return [...Map.groupBy(declared, ({ name }) => name)]
    .filter(([, each]) => each.length > 1)
    .map(([name, each]) => `${name}: ${each.map(({ path }) => path).join(", ")}`);
}

describe("the layers (src/README.md)", () => {
  it("has the packages and the parts of the lists", () => {
    expect([...new Set(files.map((file) => file.room))].sort()).toEqual([...ROOMS, ENTRY].sort());
  });

  it("imports downwards, and other packages by their index.ts", () => {
    expect(files.flatMap(importViolations)).toEqual([]);
  });

  it("reads the environment and the time in one place", () => {
    expect(files.flatMap(useViolations)).toEqual([]);
  });

  it("has index files that only re-export", () => {
    expect(files.flatMap(indexViolations)).toEqual([]);
  });

  it("has no file without a name of its own", () => {
    const vague = files.filter(({ path }) => /(^|\/)(utils?|helpers?|common|manager|misc)\.ts$/.test(path));
    expect(vague.map(({ path }) => path)).toEqual([]);
  });

  it("has no folder of more than twelve files beside its index.ts", () => {
    const inside = files.map(({ path }) => path).filter((path) => !path.endsWith("index.ts"));
    const folders = Map.groupBy(inside, (path) => dirname(path));
    expect([...folders].filter(([, paths]) => paths.length > 12).map(([folder]) => folder)).toEqual([]);
  });

  it("has no cycles of imports, those of types included", () => {
    expect(cycles(importsBetween(files))).toEqual([]);
  });

  it("has no two exports of one name, which a reader would take for the same thing", () => {
    expect(repeatedExports(files)).toEqual([]);
  });

  it("lists every package in the map", () => {
    const map = readFileSync(join(src, "README.md"), "utf8");
    expect(ROOMS.filter((room) => !map.includes(`\`${room}/\``))).toEqual([]);
  });
});

describe("the rules themselves", () => {
  const judge = (path: string, text: string): string[] => {
    const file = read(path, text);
    return [...importViolations(file), ...useViolations(file), ...indexViolations(file)];
  };

  it.each([
    ["base/x.ts", 'import { run } from "./process/index.ts";', /base\/process stands above base/],
    ["helm/x.ts", 'import { run } from "../base/process/run.ts";', /only its index/],
    ["engine/tasks/x.ts", 'export * from "../../report/index.ts";', /report stands above engine/],
    ["helm/x.ts", 'const x = await import("../main/wiring/base.ts");', /wiring stands above helm/],
    ["helm/x.ts", 'import { y } from "./index.ts";', /own index/],
    ["helm/x.ts", 'import { spawn } from "node:child_process";', /only base\/process\//],
    ["helm/x.ts", 'import type { KubeConfig } from "@kubernetes/client-node";', /only kube\//],
    [
      "surface/ui/x.ts",
      'import { environment } from "../../config/settings/environment.ts";',
      /only its index/,
    ],
    ["helm/x.ts", "export const home = process.env.HOME;", /process\.env/],
    ["helm/x.ts", "export const now = Date.now();", /Date\.now/],
    ["helm/x.ts", "export const now = new Date();", /new Date\(\)/],
    ["helm/x.ts", "setTimeout(() => {}, 1);", /timers belong/],
    ["helm/x.ts", "clock.setTimer(1, () => {});", /setTimer is for/],
    ["helm/index.ts", "export const x = 1;", /only re-exports/],
  ])("%s: %s is refused", (path, text, reason) => {
    expect(judge(path, text)).toEqual([expect.stringMatching(reason)]);
  });

  it("a cycle of types is found, and the files around it are not blamed", () => {
    const sources = [
      ["a/top.ts", 'import { x } from "./x.ts";'],
      ["a/x.ts", 'import type { Y } from "./y.ts"; import { z } from "./z.ts";'],
      ["a/y.ts", 'export * from "./x.ts";'],
      ["a/z.ts", "export const z = 1;"],
    ] as const;
    expect(cycles(importsBetween(sources.map(([path, text]) => read(path, text))))).toEqual([
      "a/x.ts",
      "a/y.ts",
    ]);
  });

  it("a name that two files declare and export is found, and one that index.ts re-exports is not", () => {
    const sources = [
      ["a/x.ts", "export interface Token {} export const x = 1;"],
      ["b/y.ts", "export async function Token() {}"],
      ["a/index.ts", 'export { x } from "./x.ts";'],
    ] as const;
    expect(repeatedExports(sources.map(([path, text]) => read(path, text)))).toEqual([
      "Token: a/x.ts, b/y.ts",
    ]);
  });

  it.each([
    ["engine/tasks/x.ts", 'import { run } from "../queue/index.ts";'],
    ["helm/x.ts", "export const at = (ms: number) => new Date(ms).toISOString() + Date.UTC(2026);"],
    ["main/commands/run.ts", 'const x = await import("../run-operator.ts");'],
  ])("%s: %s is fine", (path, text) => {
    expect(judge(path, text)).toEqual([]);
  });
});
