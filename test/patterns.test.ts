import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Script, createContext } from "node:vm";
import { parseSync } from "oxc-parser";
import { describe, expect, it, vi } from "vitest";

import { hostileTexts } from "./support/hostile-texts.ts";

const src = join(import.meta.dirname, "..", "src");

type Node = Readonly<Record<string, unknown>>;

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null;

function* nodes(value: unknown): Generator<Node> {
  if (!isNode(value)) return;
  yield value;
  for (const child of Object.values(value)) yield* nodes(child);
}

interface Found {
  readonly where: string;
  readonly pattern: RegExp;
}

/** Every regular expression of a file, and where it puts together others. */
function patternsOf(path: string, text: string): { patterns: Found[]; built: string[] } {
  const patterns: Found[] = [];
  const built: string[] = [];
  for (const node of nodes(parseSync(path, text).program)) {
    const where = `${path}:${text.slice(0, Number(node["start"])).split("\n").length}`;
    const regex = node["type"] === "Literal" ? node["regex"] : undefined;
    if (isNode(regex))
      patterns.push({ where, pattern: new RegExp(String(regex["pattern"]), String(regex["flags"])) });
    if (isBuilt(node)) built.push(where);
  }
  return { patterns, built };
}

/** `RegExp(…)`, `new RegExp(…)`, and `text.match("…")`, which makes one of a string. */
function isBuilt({ type, callee, arguments: args }: Node): boolean {
  if ((type !== "NewExpression" && type !== "CallExpression") || !isNode(callee)) return false;
  if (callee["name"] === "RegExp") return true;
  const called = isNode(callee["property"]) ? callee["property"]["name"] : undefined;
  const [first] = Array.isArray(args) ? (args as unknown[]) : [];
  const isPattern = isNode(first) && isNode(first["regex"]);
  return (
    ["match", "matchAll", "search"].includes(String(called)) &&
    !isPattern &&
    isNode(first) &&
    first["type"] === "Literal"
  );
}

/** The patterns that a file puts together when it is loaded. */
async function builtBy(path: string): Promise<Found[]> {
  const built: Found[] = [];
  const record = (pattern: RegExp): RegExp => {
    if (new Error("who").stack?.includes(path) === true) built.push({ where: path, pattern });
    return pattern;
  };
  vi.stubGlobal(
    "RegExp",
    new Proxy(RegExp, {
      construct: (target, [source, flags]: [string, string?]) => record(new target(source, flags)),
      apply: (target, _this, [source, flags]: [string, string?]) => record(target(source, flags)),
    }),
  );
  try {
    // The query makes it another module than the one that is loaded already.
    await import(`${join(src, path)}?built`);
  } finally {
    vi.unstubAllGlobals();
  }
  return built;
}

const files = globSync("**/*.ts", { cwd: src }).sort();
const found = files.map((path) => ({ path, ...patternsOf(path, readFileSync(join(src, path), "utf8")) }));
const builders = found.filter(({ built }) => built.length > 0);
const loaded = await Promise.all(builders.map(({ path }) => builtBy(path)));
const all = [...found.flatMap(({ patterns }) => patterns), ...loaded.flat()];

const LENGTH = 100_000;
const LIMIT_MS = 5000;
/** What is linear needs a tenth of it for the whole length; what is not, much more. */
const SUSPICIOUS_MS = 400;
/** The part of the length that is tried first. */
const PART = 10;
/** Who needs less for that part stays below it with quadratic growth, too. */
const HARMLESS_MS = SUSPICIOUS_MS / PART ** 2;
const LINEAR_GROWTH = 2 * PART;

const context = createContext({ run: () => {} });
const runs = new Script("run()");

/** Processor time of all matches in `text`; endless for what does not come to an end. */
function timeOf(pattern: RegExp, text: string): number {
  const whole = new RegExp(
    pattern.source,
    pattern.sticky ? pattern.flags : `${pattern.flags.replace("g", "")}g`,
  );
  const flat = Buffer.from(text).toString();
  const before = process.cpuUsage();
  context["run"] = () => {
    whole.lastIndex = 0;
    if (pattern.sticky) whole.exec(flat);
    else for (const _ of flat.matchAll(whole));
  };
  try {
    runs.runInContext(context, { timeout: LIMIT_MS });
  } catch {
    return Number.POSITIVE_INFINITY;
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

function fastest(pattern: RegExp, text: string): number {
  const first = timeOf(pattern, text);
  return Number.isFinite(first) ? Math.min(first, timeOf(pattern, text), timeOf(pattern, text)) : first;
}

/** The beginning of a text on which the pattern takes more than linear time. */
function chokesOn(pattern: RegExp): string | undefined {
  for (const make of hostileTexts(pattern)) {
    const part = make(LENGTH / PART);
    const short = timeOf(pattern, part);
    if (short < HARMLESS_MS) continue;
    if (!Number.isFinite(short)) return JSON.stringify(part.slice(0, 60));
    const text = make(LENGTH);
    const long = timeOf(pattern, text);
    if (long < SUSPICIOUS_MS) continue;
    // A busy machine makes one of them slow, not the fastest of three.
    if (fastest(pattern, text) > LINEAR_GROWTH * fastest(pattern, part))
      return JSON.stringify(text.slice(0, 60));
  }
  return undefined;
}

describe("text from outside meets only linear-time matching", () => {
  it("puts no pattern together but from constants, when a file is loaded", () => {
    expect(loaded.map((built) => built.length)).toEqual(builders.map(({ built }) => built.length));
  });

  it.each(all.map(({ where, pattern }) => [where, pattern] as const))(
    "%s %s",
    (_where, pattern) => {
      expect(chokesOn(pattern)).toBeUndefined();
    },
    60_000,
  );
});

describe("the test itself", () => {
  it.each([
    [/(?:[A-Za-z0-9+/=]{16,}[\s|]*)+-----END [A-Z0-9 ]+-----/g],
    [/\n+Use --debug$/],
    [/^(a+)+$/],
    [/: *("(?:[^"\\]|\\.)*"|\{.*\})/gs],
    [/\s+$/],
    [/"(?:[^"\\]|\\.)*"/g],
  ])(
    "finds that %s is not linear",
    (pattern) => {
      expect(chokesOn(pattern)).toBeDefined();
    },
    60_000,
  );

  it("finds patterns wherever they stand", () => {
    const text =
      'const a = { b: [x.replace(/y+/, "")] }; RegExp(a); new RegExp(b); c.match("d"); e.search(/f/);';
    const { patterns, built } = patternsOf("x.ts", text);
    expect(patterns.map(({ pattern }) => pattern)).toEqual([/y+/, /f/]);
    expect(built).toHaveLength(3);
  });
});
