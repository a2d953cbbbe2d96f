// Runs at night: few changes add a pattern, and each is tried with long texts.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Script, createContext } from "node:vm";
import { parseSync } from "oxc-parser";
import { describe, expect, it, vi } from "vitest";

import { hostileTexts } from "./support/hostile-texts.ts";
import type { TextMaker } from "./support/hostile-texts.ts";
import { isNode, nodes, type Node } from "./support/syntax.ts";

const src = join(import.meta.dirname, "..", "src");

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
  // Loads what the file imports: it may put patterns together, too.
  await import(join(src, path));
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
// One after the other: each replaces the global RegExp while it loads.
const loaded: Found[][] = [];
for (const { path } of builders) loaded.push(await builtBy(path));
const all = [...found.flatMap(({ patterns }) => patterns), ...loaded.flat()];

/**
 * Whether a match can be as long as the text. Without a repetition each place of the text takes a bounded time: linear for
 * any text. `?` repeats nothing, and in a class these characters stand for themselves.
 */
const repeats = ({ source }: RegExp): boolean =>
  /[*+{]/.test(source.replaceAll(/\\.|\[(?:\\.|[^\]\\])*\]/gs, ""));

const LENGTH = process.env["LONG"] === undefined ? 20_000 : 200_000;
/** The part of the length that is tried first. */
const PART = 10;
/** What takes longer for the part never ends. */
const PART_LIMIT_MS = LENGTH / 200;
/** What is linear needs a tenth of it for the whole length; what is not, much more. */
const SUSPICIOUS_MS = LENGTH / 1000;
/** Who needs less for that part stays below it with quadratic growth, too. */
const HARMLESS_MS = SUSPICIOUS_MS / PART ** 2;
/** Who needs more shows its growth in a text of fewer parts. */
const SLOW_MS = 30;
const FEWER_PARTS = 3;
/** A processor that many share: what never ends is cut off by itself. */
const PATIENCE_MS = 600_000;

const context = createContext({ run: () => {} });
const runs = new Script("run()");

/** Processor time of `work`; `ended` is false when that was cut off after `limitMs`. */
function timed(work: () => void, limitMs: number): { ms: number; ended: boolean } {
  context["run"] = work;
  const before = process.cpuUsage();
  let ended = true;
  try {
    runs.runInContext(context, { timeout: limitMs });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    ended = false;
  }
  const { user, system } = process.cpuUsage(before);
  return { ms: (user + system) / 1000, ended };
}

/** The same for at least `ms` of a processor: a busy machine cuts off early, and then it gets longer. */
function timedFor(work: () => void, ms: number): { ms: number; ended: boolean } {
  for (let limit = Math.ceil(2 * ms); ; limit *= 2) {
    const took = timed(work, limit);
    if (took.ended || took.ms > ms) return took;
  }
}

/** Finds all matches in a text. */
function matcher(pattern: RegExp): (text: string) => void {
  const flags = pattern.sticky ? pattern.flags : `${pattern.flags.replace("g", "")}g`;
  const whole = new RegExp(pattern.source, flags);
  return (text) => {
    whole.lastIndex = 0;
    if (pattern.sticky) whole.exec(text);
    else for (const _ of text.matchAll(whole));
  };
}

/** In one piece, as text comes from outside. */
const flat = (text: string): string => Buffer.from(text).toString();

/** The makers of texts whose part took suspiciously long, or during which the time for all of them was up. */
function* suspects(pattern: RegExp): Generator<TextMaker> {
  const match = matcher(pattern);
  const pendingOwners = [...hostileTexts(pattern)];
  const texts = pendingOwners.map((make) => flat(make(LENGTH / PART)));
  let at = 0;
  let slow: TextMaker[] = [];
  // Under one limit: to set one takes longer than most patterns do.
  const tryOn = (): void => {
    for (; at < texts.length; at++) {
      const before = performance.now();
      match(texts[at] ?? "");
      if (performance.now() - before >= HARMLESS_MS) slow.push(pendingOwners[at] as TextMaker);
    }
  };
  while (at < texts.length) {
    slow = [];
    const { ended } = timed(tryOn, PART_LIMIT_MS);
    // The limit can also be reached right after the last text: then none is left that took too long.
    if (!ended && at < texts.length) slow.push(pendingOwners[at++] as TextMaker);
    yield* slow;
  }
}

/** The beginning of a text on which the pattern takes more than linear time. */
function chokesOn(pattern: RegExp): string | undefined {
  const match = matcher(pattern);
  const timeOf = (text: string, ms: number) => timedFor(() => match(flat(text)), ms);
  for (const make of suspects(pattern)) {
    const part = make(LENGTH / PART);
    const short = timeOf(part, PART_LIMIT_MS);
    if (!short.ended) return JSON.stringify(part.slice(0, 60));
    if (short.ms < HARMLESS_MS) continue;
    const parts = short.ms > SLOW_MS ? FEWER_PARTS : PART;
    const text = make((LENGTH / PART) * parts);
    const linear = Math.max(SUSPICIOUS_MS, 2 * parts * short.ms);
    // Something else may have made it slow once.
    if (timeOf(text, linear).ms > linear && timeOf(text, linear).ms > linear)
      return JSON.stringify(text.slice(0, 60));
  }
  return undefined;
}

describe("text from outside meets only linear-time matching", () => {
  it("puts no pattern together but from constants, when a file is loaded", () => {
    expect(loaded.map((built) => built.length)).toEqual(builders.map(({ built }) => built.length));
  });

  const repeating = all.filter(({ pattern }) => repeats(pattern));
  it.each(repeating.map(({ where, pattern }) => [where, pattern] as const))(
    "%s %s",
    (_where, pattern) => {
      expect(chokesOn(pattern)).toBeUndefined();
    },
    PATIENCE_MS,
  );
});

describe("the test itself", () => {
  it.each([
    [/(?:[A-Za-z0-9+/=]{16,}[\s|]*)+-----END [A-Z0-9 ]+-----/g],
    [/^(a+)+$/],
    [/\s+$/],
    [/"(?:[^"\\]|\\.)*"/g],
  ])(
    "finds that %s is not linear",
    (pattern) => {
      expect(chokesOn(pattern)).toBeDefined();
    },
    PATIENCE_MS,
  );

  it("tries what repeats something, whatever it looks like", () => {
    const tried = [/a+/, /[a\]+]*/, /\[b+]/, /a{2,}/, /\\+/, /\u{61}/u, /(?<=x*)y/].map(repeats);
    expect(tried).toEqual(tried.map(() => true));
    const left = [/[*+{]/, /a\+b?/, /^[\]+]$/, /(?<![\w.-])[a-z]/, /x|\*|y/].map(repeats);
    expect(left).toEqual(left.map(() => false));
  });

  it("finds patterns wherever they stand", () => {
    const text =
      'const a = { b: [x.replace(/y+/, "")] }; RegExp(a); new RegExp(b); c.match("d"); e.search(/f/);';
    const { patterns, built } = patternsOf("x.ts", text);
    expect(patterns.map(({ pattern }) => pattern)).toEqual([/y+/, /f/]);
    expect(built).toHaveLength(3);
  });
});
