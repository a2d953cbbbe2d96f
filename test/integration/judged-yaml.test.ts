// Runs at night: hostile input.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import * as fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";

import { parseYaml } from "../../src/base/index.ts";
import { mutated } from "../fuzz/mutate.ts";
import { helmUnderTest } from "../support/cluster.ts";

/** Texts for each run. */
const RUNS = Number(process.env["SEEDS"] ?? 500);
const BATCH = 2000;
const LONGEST = 20_000;

const SEEDS = [
  "a: 1\nb: {c: [1, 2, &x {d: e}, *x]}\ntext: |\n  one\n  two\n",
  "<<: {a: 1}\nd: 12:30\ne: 0o17\nf: 2001-01-01\ng: ~\nh: Yes\n",
  "image:\n  repository: nginx # comment\n  tag: \"1.0\"\n  pull: 'If''Not'\nresources: {}\nlist:\n- a\n- b: c\n  d: e\n-\n  - x\n",
  's: >-\n  folded\n  text\n\n  more\nt: |+\n  keep\n\nu: "esc \\u00e9 \\n \\x41"\n? complex\n: value\n',
  '%YAML 1.1\n---\na: !!str 1\nb: !!int "3"\nc: .inf\nd: -.5e3\ne: 0x1F\nf: 1_000\ng: +12\nh: 017\n...\n',
  "a: &x [1, {b: 2}]\nb: *x\nc: {<<: {q: 1}, r: 2}\nd: [a, 'b', \"c\", ]\n",
];

/** Renders each file as JSON, in base64, so that the output is YAML whatever the file contains. */
const TEMPLATE = `apiVersion: v1
kind: ConfigMap
metadata: {name: x}
data:
{{- range $path, $bytes := .Files.Glob "files/*" }}
  {{ $path }}: {{ $bytes | toString | fromYaml | toJson | b64enc }}
{{- end }}
`;

/** What helm's `fromYaml` makes of each text; undefined where it has no map. One process reads all texts. */
function judge(texts: readonly string[]): unknown[] {
  const dir = mkdtempSync(join(tmpdir(), "judged-yaml-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  for (const name of ["templates", "files"]) mkdirSync(join(dir, name));
  writeFileSync(join(dir, "Chart.yaml"), "apiVersion: v2\nname: c\nversion: 0.1.0\n");
  writeFileSync(join(dir, "templates", "all.yaml"), TEMPLATE);
  for (const [i, text] of texts.entries()) writeFileSync(join(dir, "files", String(i)), text);
  const output = execFileSync(helmUnderTest(), ["template", "x", dir], { maxBuffer: 1 << 28 }).toString();
  const judged = new Map<string, unknown>();
  for (const [, index = "", base64 = ""] of output.matchAll(/^ {2}files\/(\d+): (.*)$/gm))
    judged.set(index, JSON.parse(Buffer.from(base64, "base64").toString()));
  return texts.map((_, i) => judged.get(String(i)));
}

const isRefused = (value: unknown): value is { readonly Error: string } =>
  value instanceof Object && Object.keys(value).length === 1 && "Error" in value;

/** `fromYaml` reads maps only, and Go checks characters after the end of the document, too. */
const NO_VERDICT = /unmarshal|control characters/;

/** The operator does not read on after a flow collection, and reports the rest; Go ignores it. */
const endsEarly = (text: string): boolean => /^(?:\s|---|!\S*\s)*[{[]/.test(text);

/** Compares one text; undefined if both read it alike, or both refuse it. */
function compare(text: string, judged: unknown): string | undefined {
  if (judged === undefined || (isRefused(judged) && NO_VERDICT.test(judged.Error))) return undefined;
  let ours: unknown;
  try {
    const { value } = parseYaml(text, "text");
    ours = JSON.parse(JSON.stringify(value ?? {}));
  } catch (error) {
    if (isRefused(judged) || endsEarly(text)) return undefined;
    return `${JSON.stringify(text)}: refused: ${String(error)}; helm reads ${JSON.stringify(judged)}`;
  }
  if (isDeepStrictEqual(ours, judged)) return undefined;
  return `${JSON.stringify(text)}: read as ${JSON.stringify(ours)}; helm: ${JSON.stringify(judged)}`;
}

test("helm and the operator read each text alike, or refuse it", { timeout: 3_600_000 }, () => {
  const seed = Number(process.env["SEED"] ?? Date.now() % 1_000_000_000);
  let compared = 0;
  const differences: string[] = [];
  for (let from = 0; from < RUNS; from += BATCH) {
    const sample = { numRuns: Math.min(BATCH, RUNS - from), seed: seed + from };
    const inputs = fc.sample(mutated(SEEDS), sample).map((bytes) => bytes.toString());
    // helm reads files as bytes: a text that is not UTF-8 is no input of `fromYaml`.
    const texts = [...SEEDS, "!!str <<: {a: 1}\n", "!!merge <<: {a: 1}\n", ...inputs].filter(
      (text) => text.length < LONGEST && !text.includes("\uFFFD"),
    );
    const judged = judge(texts);
    compared += judged.filter((each) => each !== undefined).length;
    differences.push(...texts.flatMap((text, i) => compare(text, judged[i]) ?? []));
  }
  console.log(`YAML: ${compared} texts compared, SEED=${seed}`);
  expect(differences).toEqual([]);
  expect(compared).toBeGreaterThan(RUNS / 4);
});
