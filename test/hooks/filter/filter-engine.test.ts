import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterEach, describe, expect, test } from "vitest";

import { FilterEngine, FilterError, type FilterEngineOptions } from "../../../src/hooks/filter/index.ts";
import { TIME_LIMIT_MS } from "../../../src/hooks/filter/filter-engine.ts";
import { checkSyntax, findJq, shortenJqError } from "../../../src/hooks/filter/jq.ts";
import { silentLogger, systemClock } from "../../../src/base/index.ts";
import type { Json, JsonObject } from "../../../src/base/model/index.ts";
import { Children } from "../../../src/base/process/index.ts";
import { ManualClock } from "../../support/clock.ts";

const engines: FilterEngine[] = [];
afterEach(() => {
  for (const engine of engines.splice(0)) engine.close();
});

function open(options: Partial<FilterEngineOptions> = {}): FilterEngine {
  const engine = new FilterEngine({
    children: new Children(),
    jqBin: undefined,
    env: process.env,
    clock: systemClock,
    logger: silentLogger,
    ...options,
  });
  engines.push(engine);
  return engine;
}

async function evaluate(engine: FilterEngine, text: string, object: JsonObject): Promise<Json> {
  return (await engine.compile(text)).evaluate(object);
}

function fixture(name: string): string {
  return fileURLToPath(new URL(`../../fixtures/filter/${name}`, import.meta.url));
}

async function failure(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    if (error instanceof FilterError) return `${error.failure}: ${error.message}`;
    throw error;
  }
  return "no error";
}

describe("jq processes", () => {
  test("filters see no variable of the operator", async () => {
    const engine = open({ env: { ...process.env, SECRET: "s" } });
    expect(await evaluate(engine, "[env, $ENV | .SECRET]", {})).toEqual([null, null]);
  });

  test("results go to their own objects, thousands at once, failures between them", async () => {
    const filter = await open().compile('.n | if . % 7 == 0 then error("seven") else . * 10 end');
    const results = await Promise.allSettled(
      Array.from({ length: 3000 }, async (_, n) => filter.evaluate({ n, pad: "x".repeat(n % 500) })),
    );
    const got = results.map((result) =>
      result.status === "fulfilled" ? result.value : String(result.reason),
    );
    expect(got).toEqual(got.map((_, n) => (n % 7 === 0 ? "FilterError: seven" : n * 10)));
  });

  test("an object over the pipe's size goes through whole", async () => {
    const filter = await open().compile(".a | length");
    expect(await filter.evaluate({ a: "x".repeat(3_000_000) })).toBe(3_000_000);
  });

  test("an answer that `try` lets through as none is that object's failure only", async () => {
    const filter = await open().compile("if .bad then error({__jq: 0}) else 1 end");
    const bad = failure(Promise.resolve(filter.evaluate({ bad: true })));
    expect(await filter.evaluate({ bad: false })).toBe(1);
    expect(await bad).toMatch(/^runtime: /);
  });

  test("an error names types, not the values of the object", async () => {
    const engine = open();
    const failed = async (text: string): Promise<string> =>
      failure(Promise.resolve((await engine.compile(text)).evaluate({ pin: "hunter(2) is it" })));
    const texts = [".pin | reverse | tonumber", ".pin + 1", "error({pin})", ".pin * {} | keys"];
    const errors = await Promise.all(texts.map(failed));
    expect(errors.filter((error) => !error.startsWith("runtime: ") || error.includes("hunter"))).toEqual([]);
  });

  test.each([
    "error(.data.pin)",
    "{} | .[.x] = 1 | error($__loc__ | tostring)",
    ".data.pin | tonumber",
    '"" | .[0][$p]',
  ])("for a Secret an error of %s quotes nothing", async (text) => {
    const filter = await open().compile(`.data.pin as $p | ${text}`);
    const secret = { kind: "Secret", data: { pin: "hunter2" } };
    expect(await failure(Promise.resolve(filter.evaluate(secret)))).toBe(
      "runtime: it failed; what jq says is left out, since it may quote the Secret",
    );
  });

  test("a filter that never ends fails for all objects after a few of them, and is tried again later", async () => {
    const clock = new ManualClock();
    const options = { timeLimitMs: 100, clock };
    const filter = await open(options).compile("if .loop then [repeat(.)] else 1 end");
    const all = Array.from({ length: 200 }, () => failure(Promise.resolve(filter.evaluate({ loop: true }))));
    // One by one they would take 400 times the limit.
    await clock.advance(4 * 100);
    expect(new Set(await Promise.all(all))).toEqual(new Set(["timeout: the filter took over 100ms"]));
    expect(await filter.evaluate({ loop: false })).toBe(1);
  });

  test("a filter that loops for one object fails there, after a second try; the others get their results", async () => {
    const clock = new ManualClock();
    const options = { timeLimitMs: 300, clock };
    const filter = await open(options).compile("if .loop then [repeat(.)] else .n + 1 end");
    const loop = failure(Promise.resolve(filter.evaluate({ loop: true })));
    const others = Promise.all(Array.from({ length: 50 }, async (_, n) => filter.evaluate({ n })));
    await clock.advance(2 * 300);
    expect(await loop).toBe("timeout: the filter took over 300ms");
    expect(await others).toEqual(Array.from({ length: 50 }, (_, n) => n + 1));
  });

  test("one evaluation may take 5 s where nothing else is asked for", () => {
    expect(TIME_LIMIT_MS).toBe(5000);
  });

  test("idle processes over the limit end, and their filters go on working", async () => {
    const engine = open({ maxIdle: 2 });
    const filters = await Promise.all([1, 2, 3, 4].map((n) => engine.compile(`.n + ${n}`)));
    for (let round = 0; round < 2; round++) {
      for (const [place, filter] of filters.entries())
        expect(await filter.evaluate({ n: 0 })).toBe(place + 1);
    }
  });

  test("equal texts share one compiled filter", async () => {
    const engine = open();
    expect(await engine.compile(".a | length")).toBe(await engine.compile(".a | length"));
  });

  test("closing refuses what is under way and what comes later", async () => {
    const engine = open();
    const filter = await engine.compile(".a | repeat(.)");
    const running = failure(Promise.resolve(filter.evaluate({})));
    engine.close();
    expect(await running).toBe("engine: the filter engine is closed");
    expect(await failure(Promise.resolve(filter.evaluate({})))).toBe("engine: the filter engine is closed");
  });
});

describe("a jq that misbehaves", () => {
  test("one that dies at an object is started again, and tried once more", async () => {
    const filter = await open({ jqBin: fixture("dying-jq.sh") }).compile(".a | length");
    expect(await failure(Promise.resolve(filter.evaluate({ a: "die" })))).toBe(
      "engine: jq ended: out of luck",
    );
    expect(await filter.evaluate({ a: "fine" })).toBe("ok");
  });

  test("one that dies once has cost nothing", async () => {
    const dir = await mkdtemp(join(tmpdir(), "dying-jq-"));
    const filter = await open({ jqBin: fixture("dying-jq.sh") }).compile(".a | length");
    expect(await filter.evaluate({ a: `once:${dir}/seen` })).toBe("ok");
    expect(existsSync(`${dir}/seen`)).toBe(true);
    await rm(dir, { recursive: true });
  });

  test("objects sent after the one it died at are answered by the next process", async () => {
    const filter = await open({ jqBin: fixture("dying-jq.sh") }).compile(".a | length");
    const died = failure(Promise.resolve(filter.evaluate({ a: "die" })));
    expect(await Promise.all([filter.evaluate({ a: 1 }), filter.evaluate({ a: 2 })])).toEqual(["ok", "ok"]);
    expect(await died).toMatch(/^engine: /);
  });

  test("an answer with another object's id is no answer", async () => {
    const filter = await open({ jqBin: fixture("mixing-jq.sh") }).compile(".a | length");
    expect(await failure(Promise.resolve(filter.evaluate({ a: 1 })))).toBe(
      "engine: jq gave an unreadable answer",
    );
  });

  test("a missing jq is said at load, and only for filters that need it", async () => {
    const engine = open({ jqBin: "no-such-jq" });
    expect(await evaluate(engine, ".a", { a: 1 })).toBe(1);
    expect(await failure(engine.compile(".a | length"))).toBe(
      "engine: no-such-jq not found on PATH: install jq, or name one with --jq-bin (JQ_PATH)",
    );
  });
});

describe("filters refused at load", () => {
  test.each([
    [".a) | (.b", /^syntax: syntax error, unexpected /],
    [".a | (", /^syntax: /],
    ["map(", /^syntax: /],
    ['"abc', /^syntax: /],
    ["nonsense", /^syntax: nonsense\/0 is not defined/],
    ["$id", /^syntax: \$id is not defined/],
    ["def f: 1;", /^syntax: the filter only defines functions/],
    ["1] , [2", /^syntax: /],
    ["1)]} catch {e: .})] # ", /^syntax: /],
    [". # \\\n)]", /^refused: a comment that ends in a backslash/],
    ["a\0b", /^syntax: a NUL character/],
    ["input", /^refused: `input` is not allowed: it would read the next event/],
    ["[inputs]", /^refused: `inputs` /],
    ['"\\(1 | input)"', /^refused: `input` /],
    ["{a: 1, b: input}", /^refused: `input` /],
    ["{a: [1, input]}", /^refused: `input` /],
    ["first(inputs)", /^refused: `inputs` /],
    ["halt", /^refused: `halt` /],
    ['"x" | halt_error', /^refused: `halt_error` /],
    ["halt_error(1)", /^refused: `halt_error` /],
    ["input_line_number", /^refused: `input_line_number` /],
    ['import "x" as x; .', /^refused: `import` /],
    ['include "x"; .', /^refused: `include` /],
    ['"x" | modulemeta', /^refused: `modulemeta` /],
  ])("%j", async (text, message) => {
    const said = await failure(open().compile(text));
    expect(said).toMatch(message);
    expect(said).not.toContain("\n");
  });

  test.each([
    ".input",
    ".a.halt",
    "{input: .a}",
    "{input, halt}",
    '.["input"]',
    ".x | .inputs | length",
    "# input\n.a | length",
  ])("%s is fine", async (text) => {
    expect(await failure(open().compile(text))).toBe("no error");
  });
});

describe("the check of the syntax", () => {
  test("evaluates nothing, and reads a minus sign as part of the filter", async () => {
    const jq = await findJq(undefined, process.env, new Children());
    await checkSyntax(jq, "repeat(.)");
    await checkSyntax(jq, "-1 | length");
    expect(await failure(checkSyntax(jq, "nonsense"))).toMatch(/^syntax: .*nonsense/);
  });

  test("names a program that does not exist", async () => {
    const engine = open({ jqBin: "/nonexistent/jq" });
    expect(await failure(engine.compile("length"))).toBe(
      "engine: /nonexistent/jq --version: cannot start /nonexistent/jq: no such file",
    );
  });
});

describe("messages in one line", () => {
  test.each([
    [
      "jq: error: syntax error, unexpected $end (Unix shell quoting issues?) at <top-level>, line 1:\nmap(\njq: 1 compile error",
      "syntax error, unexpected $end at <top-level>, line 1",
    ],
    ["jq: error (at <stdin>:1): no", "no"],
    [
      'gojq: invalid query: . a\n    . a\n      ^  unexpected token "a"\n',
      'invalid query: . a: unexpected token "a"',
    ],
    ["gojq: compile error: function not defined: foo/0", "compile error: function not defined: foo/0"],
  ])("%j", (stderr, want) => {
    expect(shortenJqError(stderr)).toBe(want);
  });
});

describe("a result that is nested too deep", () => {
  const TEXT = "reduce range(210) as $level (1; [.])";

  test("is an error", async () => {
    const engine = open();
    expect(await failure(evaluate(engine, TEXT, {}))).toBe(
      "runtime: the filter's result is nested deeper than 200 levels",
    );
    expect(await evaluate(engine, "reduce range(100) as $level (1; [.]) | tojson | length", {})).toBe(201);
  });
});
