import { readFileSync } from "node:fs";

import { execa } from "execa";
import { afterEach, describe, expect, test } from "vitest";

import { FilterEngine, FilterError } from "../../../src/hooks/filter/index.ts";
import type { Jq } from "../../../src/hooks/filter/jq.ts";
import { toFilterResult } from "../../../src/hooks/filter/evaluate.ts";
import { buildJqProgram } from "../../../src/hooks/filter/jq-process.ts";
import { canonicalJson, silentLogger, systemClock } from "../../../src/base/index.ts";
import { readJson, type Json, type JsonObject } from "../../../src/base/model/index.ts";
import { Children } from "../../../src/base/process/index.ts";
import { familyOf, jqEngines } from "../../support/jq-engines.ts";

const ENGINES = await jqEngines();

const open: FilterEngine[] = [];
afterEach(() => {
  for (const engine of open.splice(0)) engine.close();
});

function start({ file, env }: Jq, timeLimitMs = 10_000): FilterEngine {
  const engine = new FilterEngine({
    children: new Children(),
    jqBin: file,
    env,
    clock: systemClock,
    logger: silentLogger,
    timeLimitMs,
  });
  open.push(engine);
  return engine;
}

type Answer = { readonly result: Json } | { readonly failure: string };

async function answer(engine: FilterEngine, text: string, input: JsonObject): Promise<Answer> {
  try {
    return { result: await (await engine.compile(text)).evaluate(input) };
  } catch (error) {
    if (error instanceof FilterError) return { failure: error.failure };
    throw error;
  }
}

/** Filters that need jq, with answers every engine gives: each in a process of its own, as the operator runs it. */
const FILTERS: readonly (readonly [string, JsonObject, Json])[] = [
  [".a | length", { a: [1, 2] }, 2],
  [".labels | to_entries | map(.key)", { labels: { z: "1", b: "2" } }, ["b", "z"]],
  ["[.[]]", { z: 1, b: 2 }, [2, 1]],
  ["empty", {}, null],
  [".a[] | select(. > 1)", { a: [1, 2, 3] }, [2, 3]],
  [".a | map({n: ., m: (. * 2)})", { a: [1] }, [{ m: 2, n: 1 }]],
  ['if .a then "y" else "n" end', { a: true }, "y"],
  ['"x\\(.a)y"', { a: 1 }, "x1y"],
  [". # comment )", { b: 1, a: 2 }, { a: 2, b: 1 }],
  ["(.a // empty) | tostring # end", { a: 1 }, "1"],
  ["def f(x): x + 1; f(.a)", { a: 1 }, 2],
  [".a as [$x, $y] | {$x, $y}", { a: [1, 2] }, { x: 1, y: 2 }],
  ["reduce .a[] as $i (0; . + $i)", { a: [1, 2, 3] }, 6],
  ['try error("x") catch .', {}, "x"],
  ["-1", {}, -1],
  ["-(.a)", { a: 3 }, -3],
  ["env | length", {}, 0],
  ["$ENV | length", {}, 0],
  ["length | debug | stderr", { a: 1 }, 1],
  [".a | 1.0 * .", { a: 1 }, 1],
  ['.s | test("^a")', { s: "abc" }, true],
  [".s | ascii_downcase", { s: "ÄB\n\u0000😀" }, "Äb\n\u0000😀"],
  [".a | sort_by(.x) | .[0].x", { a: [{ x: 2 }, { x: 1 }] }, 1],
  ["del(.b)", { a: 1, b: 2 }, { a: 1 }],
  [".metadata.managedFields | length", { metadata: { managedFields: [1] } }, 1],
  ["{input: 1, halt: 2} | {input, halt} | length", {}, 2],
];

interface Table {
  readonly input: JsonObject;
  readonly filters: readonly (readonly [text: string, result: Json, failure?: "runtime"])[];
}
const TABLE = JSON.parse(
  readFileSync(new URL("../../fixtures/filter/table.json", import.meta.url), "utf8"),
) as Table;

/** Many filters in one process: starting hundreds takes jq 1.6 a minute. */
async function answersOf({ file, env }: Jq): Promise<Answer[]> {
  const programs = TABLE.filters.map(([text]) => `(${buildJqProgram(text)})`);
  const answers: Answer[] = [];
  for (let from = 0; from < programs.length; from += 60) {
    const program = `[${programs.slice(from, from + 60).join(",\n")}]`;
    const input = canonicalJson([0, TABLE.input]);
    const options = { cwd: "/", env: { ...env, TZ: "UTC" }, extendEnv: false, input, timeout: 60_000 };
    const { stdout } = await execa(file, ["-c", program], options);
    const lines = JSON.parse(stdout) as [number, { v?: Json[]; e?: Json }][];
    answers.push(
      ...lines.map(([, { v }]) => (v === undefined ? { failure: "runtime" } : { result: toFilterResult(v) })),
    );
  }
  return answers;
}

/** Of the table in docs/reference/hooks.md: a filter, and what each engine makes of it. */
type Difference = Readonly<Record<string, string>>;

const ROW = /^\| (.*`) \|$/;
const cellsOf = (line: string): string[] =>
  (ROW.exec(line)?.[1] ?? "").split(/`? \| `/).map((cell) => cell.replaceAll("`", "").replaceAll("\\|", "|"));

function differences(): Difference[] {
  const page = readFileSync(new URL("../../../docs/reference/hooks.md", import.meta.url), "utf8");
  const from = page.indexOf("### jq filters");
  const section = page.slice(from, page.indexOf("\n## ", from));
  const [head = [], ...rows] = section
    .split("\n")
    .filter((line) => ROW.test(line))
    .map(cellsOf);
  return rows.map((cells) => Object.fromEntries(head.map((name, place) => [name, cells[place] ?? ""])));
}

describe.each(ENGINES.map((jq) => [jq.version, jq] as const))("%s", (_, jq) => {
  test("answers what all engines answer, through the filter engine", { timeout: 60_000 }, async () => {
    const engine = start(jq);
    for (const [text, input, result] of FILTERS) {
      expect({ text, ...(await answer(engine, text, input)) }).toEqual({ text, result });
    }
  });

  test("answers what all engines answer, in a long table", { timeout: 120_000 }, async () => {
    const answers = await answersOf(jq);
    for (const [place, [text, result, failure]] of TABLE.filters.entries()) {
      const want = failure === undefined ? { result } : { failure };
      expect({ text, ...answers[place] }).toEqual({ text, ...want });
    }
  });

  test("passes on numbers as they are, although it calculates with floats", async () => {
    const numbers = "[1234567890123456789,1e999,1.0,-0,0.12345678901234567890,12345678901234567890123]";
    const input = readJson(`{"a":1234567890123456789,"list":${numbers},"n":5}`) as JsonObject;
    const engine = start(jq);
    const filters = [
      [".n = 6 | .n |= . - 1", canonicalJson(input)],
      ["{moved: .a, n} | select(true)", '{"moved":1234567890123456789,"n":5}'],
      ["[.list[1:][0, 3]] | map(.)", "[1e999,0.12345678901234567890]"],
      ["[.n, (.n | . + 1)]", "[5,6]"],
    ] as const;
    for (const [text, result] of filters)
      expect(canonicalJson(await (await engine.compile(text)).evaluate(input))).toBe(result);
  });

  test("differs from others as docs/reference/hooks.md says, no other way", async () => {
    // What is no error may take its time; jq 1.6 never ends where it replaces nothing by something.
    const [patient, hasty] = [start(jq), start(jq, 500)];
    const rows = differences();
    expect(rows.length).toBeGreaterThan(10);
    for (const row of rows) {
      const text = row["Filter"] ?? "";
      const want = row[familyOf(jq)] ?? "no column of its own";
      const got = await answer(want === "error" ? hasty : patient, text, {});
      const displayed = "failure" in got ? "error" : JSON.stringify(got.result);
      expect(`${text} = ${displayed}`).toBe(`${text} = ${want}`);
    }
  });
});

test("there is an engine to test, and TEST_JQ can name more", () => {
  expect(ENGINES.length).toBeGreaterThan(0);
});
