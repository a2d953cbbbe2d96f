import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { parseSync } from "oxc-parser";
import { describe, expect, it } from "vitest";

/** Rooms from the ground up: each imports only what stands before it (src/README.md). */
const ROOMS = (
  "model lib trace values process kube cron health drift modules filter bindings hooks helm state queue plan triggers tasks " +
  "status metrics ui debug preview offline wiring commands"
).split(" ");

/** Files beside the rooms, and who may import them. */
const ROOT_FILES: Readonly<Record<string, readonly string[]>> = {
  "version.ts": ["wiring", "commands"],
  "environment.ts": ["wiring", "main.ts", "config.ts", "child-environment.ts", "run-operator.ts"],
  "child-environment.ts": ["config.ts"],
  "settings.ts": ["wiring", "config.ts", "child-environment.ts", "commands"],
  "config.ts": ["offline", "wiring", "commands", "run-operator.ts"],
  "stop-signals.ts": ["commands", "run-operator.ts"],
  "run-operator.ts": ["commands"],
  "main.ts": [],
};

/** Packages and built-in modules that one room alone may use. */
const RESERVED: readonly (readonly [RegExp, string])[] = [
  [/^(node:child_process|child_process|execa|koffi)(\/|$)/, "process"],
  [/^@kubernetes\/client-node(\/|$)/, "kube"],
  [/^(node:)?timers(\/|$)/, "lib"],
  [/^(ajv|ajv-formats)(\/|$)/, "values"],
  [/^@opentelemetry\//, "trace"],
  [/^prom-client(\/|$)/, "metrics"],
];

interface SourceFile {
  /** Path below src/. */
  readonly path: string;
  readonly room: string;
  readonly imports: readonly string[];
  readonly program: unknown;
}

const src = join(import.meta.dirname, "..", "src");
const files = globSync("**/*.ts", { cwd: src })
  .sort()
  .map((path) => read(path, readFileSync(join(src, path), "utf8")));

function read(path: string, text: string): SourceFile {
  const { program, module, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message ?? ""}`);
  const reexports = module.staticExports.flatMap(({ entries }) =>
    entries.flatMap(({ moduleRequest }) => (moduleRequest === null ? [] : [moduleRequest.value])),
  );
  const imports = module.staticImports.map(({ moduleRequest }) => moduleRequest.value);
  const dynamic = module.dynamicImports.map(({ moduleRequest: { start, end } }) =>
    text.slice(start + 1, end - 1),
  );
  return { path, room: roomOf(path), imports: [...imports, ...reexports, ...dynamic], program };
}

/** The folder, or for files of the root the file itself. */
function roomOf(path: string): string {
  return path.split("/")[0] ?? "";
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
  if (room === file.room) {
    return target === `${room}/index.ts` ? "a room's files never import their own door" : undefined;
  }
  const users = ROOT_FILES[target];
  if (users !== undefined) return users.includes(file.room) ? undefined : `only ${users.join(", ")} may`;
  if (!ROOMS.includes(room)) return "there is no such room";
  if (ROOT_FILES[file.room] === undefined && ROOMS.indexOf(room) > ROOMS.indexOf(file.room))
    return `${room} stands above ${file.room}`;
  // The composition has no door: it is what main and operator open.
  return target === `${room}/index.ts` || room === "wiring" ? undefined : "only the door may be imported";
}

type Node = Readonly<Record<string, unknown>>;

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null;

/** Every node of a syntax tree. */
function* nodes(value: unknown): Generator<Node> {
  if (!isNode(value)) return;
  yield value;
  for (const child of Object.values(value)) yield* nodes(child);
}

const nameOf = (value: unknown): string =>
  isNode(value) && typeof value["name"] === "string" ? value["name"] : "";

const TIMERS = new Set(["setTimeout", "setInterval"]);

/** Uses of the environment and of time that the house keeps in one place. */
function useViolation(node: Node, path: string): string | undefined {
  const { type } = node;
  if (type === "MemberExpression") {
    const member = `${nameOf(node["object"])}.${nameOf(node["property"])}`;
    if (member === "process.env" && path !== "environment.ts")
      return "process.env is read in environment.ts only";
    if (member === "Date.now" && path !== "lib/time/clock.ts") return "Date.now belongs to lib/clock";
  }
  if (path === "lib/time/clock.ts") return undefined;
  if (type === "CallExpression" && TIMERS.has(nameOf(node["callee"]))) return "timers belong to lib/clock";
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

/** A door only re-exports. */
function doorViolations(file: SourceFile): string[] {
  if (!file.path.endsWith("/index.ts")) return [];
  const body = (file.program as { body: readonly Node[] }).body;
  const own = body.filter(({ type, source }) => !String(type).startsWith("Export") || !isNode(source));
  return own.map(() => `${file.path}: a door only re-exports`);
}

describe("the house (src/README.md)", () => {
  it("has the rooms and root files of the plan", () => {
    const expected = [...ROOMS, ...Object.keys(ROOT_FILES)].sort();
    expect([...new Set(files.map((file) => file.room))].sort()).toEqual(expected);
  });

  it("imports downwards, and through doors", () => {
    expect(files.flatMap(importViolations)).toEqual([]);
  });

  it("reads the environment and the time in one place", () => {
    expect(files.flatMap(useViolations)).toEqual([]);
  });

  it("has doors that only re-export", () => {
    expect(files.flatMap(doorViolations)).toEqual([]);
  });

  it("has no file without a name of its own", () => {
    const vague = files.filter(({ path }) => /(^|\/)(utils?|helpers?|common|manager|misc)\.ts$/.test(path));
    expect(vague.map(({ path }) => path)).toEqual([]);
  });

  it("has no folder of more than twelve files beside its door", () => {
    const inside = files.map(({ path }) => path).filter((path) => !path.endsWith("index.ts"));
    const folders = Map.groupBy(inside, (path) => dirname(path));
    expect([...folders].filter(([, paths]) => paths.length > 12).map(([folder]) => folder)).toEqual([]);
  });

  it("lists every room in the map", () => {
    const map = readFileSync(join(src, "README.md"), "utf8");
    expect(ROOMS.filter((room) => !map.includes(`\`${room}/\``))).toEqual([]);
  });
});

describe("the rules themselves", () => {
  const judge = (path: string, text: string): string[] => {
    const file = read(path, text);
    return [...importViolations(file), ...useViolations(file), ...doorViolations(file)];
  };

  it.each([
    ["lib/x.ts", 'import { run } from "../process/index.ts";', /process stands above lib/],
    ["tasks/x.ts", 'import { run } from "../process/run.ts";', /only the door/],
    ["tasks/x.ts", 'export * from "../status/index.ts";', /status stands above tasks/],
    ["tasks/x.ts", 'const x = await import("../wiring/base.ts");', /wiring stands above tasks/],
    ["tasks/x.ts", 'import { y } from "./index.ts";', /own door/],
    ["tasks/x.ts", 'import { spawn } from "node:child_process";', /only process\//],
    ["tasks/x.ts", 'import type { KubeConfig } from "@kubernetes/client-node";', /only kube\//],
    ["tasks/x.ts", 'import { environment } from "../environment.ts";', /only wiring/],
    ["tasks/x.ts", "export const home = process.env.HOME;", /process\.env/],
    ["tasks/x.ts", "export const now = Date.now();", /Date\.now/],
    ["tasks/x.ts", "export const now = new Date();", /new Date\(\)/],
    ["tasks/x.ts", "setTimeout(() => {}, 1);", /timers belong/],
    ["tasks/index.ts", "export const x = 1;", /only re-exports/],
  ])("%s: %s is refused", (path, text, reason) => {
    expect(judge(path, text)).toEqual([expect.stringMatching(reason)]);
  });

  it.each([
    ["tasks/x.ts", 'import { run } from "../queue/index.ts";'],
    ["tasks/x.ts", "export const at = (ms: number) => new Date(ms).toISOString() + Date.UTC(2026);"],
    ["commands/run.ts", 'const x = await import("../run-operator.ts");'],
  ])("%s: %s is fine", (path, text) => {
    expect(judge(path, text)).toEqual([]);
  });
});
