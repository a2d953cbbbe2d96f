// Runs at night: hostile input.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import * as fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";

import { CrontabError, parseCrontab } from "../../src/hooks/cron/index.ts";
import { parseHelmIgnore } from "../../src/modules/chart/chart-files.ts";
import { IndexScanner } from "../../src/sources/registry/charts/index-scan.ts";
import { readCorpus } from "../fuzz/corpus.ts";
import { mutated } from "../fuzz/mutate.ts";
import { Api } from "../support/api.ts";
import { cluster, helmUnderTest } from "../support/cluster.ts";

// Programs in Go as judges of our readers: helm of `.helmignore` and `index.yaml`, the API server of crontab lines.

/** Texts for each judge; `SEED` repeats a run. */
const RUNS = Number(process.env["SEEDS"] ?? 40);
const seed = Number(process.env["SEED"] ?? Date.now() % 1_000_000_000);
const LONGEST = 5000;

/** The corpus, and texts that are made from it. */
function textsOf(name: string, runs = RUNS): string[] {
  const corpus = Object.values(readCorpus(name));
  const more = fc.sample(mutated(corpus), { numRuns: runs, seed }).map((bytes) => bytes.toString());
  return [...corpus, ...more].filter(({ length }) => length < LONGEST);
}

function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "judged-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

interface Verdicts {
  readonly texts: readonly string[];
  /** How many of the texts the judge can read. */
  readonly judged: number;
  readonly differences: readonly string[];
}

function report(name: string, { texts, judged, differences }: Verdicts): void {
  if (process.env["COUNT"] !== undefined)
    console.log(`${texts.length} inputs: ${name}, ${judged} of them judged`);
  expect(judged).toBeGreaterThan(0);
  expect(differences, `seed ${seed}`).toEqual([]);
}

const FILES = [
  "a.md",
  "keep.md",
  ".hidden",
  "dir/b.txt",
  "dir/sub/c.txt",
  "dir/sub/a.md",
  "x/y/z",
  "docs/a-b.md",
  "[x].txt",
  "a*b",
  "a\\b",
  "é.txt",
  "#note",
  "!bang",
];

/** What helm finds in the chart after `.helmignore`, as the name of a template that does not exist. */
const LISTING =
  '{{ $all := list }}{{ range $path, $_ := .Files.Glob "**" }}{{ $all = append $all $path }}{{ end }}' +
  '{{ include (printf "CHART%s:%s:" .Chart.Name (join "|" $all)) . }}';

/** The files that helm reads with each text, by one process; undefined where it reads no chart. */
function judgeHelmIgnore(texts: readonly string[]): (readonly string[] | undefined)[] {
  const dir = tempDir();
  for (const [i, text] of texts.entries()) {
    const write = (path: string, content: string): void => {
      const file = join(dir, `c${i}`, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content);
    };
    for (const path of FILES) write(path, "x");
    write("Chart.yaml", `apiVersion: v2\nname: c${i}\nversion: 0.1.0\n`);
    write("templates/list.yaml", LISTING);
    write(".helmignore", text);
  }
  const charts = texts.map((_, i) => `c${i}`);
  const { stdout } = spawnSync(helmUnderTest(), ["lint", ...charts], { cwd: dir, maxBuffer: 1 << 28 });
  const found = new Map(
    [...stdout.toString().matchAll(/"CHARTc(\d+):((?:[^"\\]|\\.)*):"/g)].map(([, i, list = ""]) => [
      Number(i),
      (JSON.parse(`"${list}"`) as string).split("|"),
    ]),
  );
  return texts.map((_, i) => found.get(i));
}

/** The files that we read with a text. */
function listWith(text: string): string[] {
  const isIgnored = parseHelmIgnore(text);
  const above = (path: string): string[] =>
    path
      .split("/")
      .slice(0, -1)
      .map((_, i, parts) => parts.slice(0, i + 1).join("/"));
  return FILES.filter((path) => !isIgnored(path, false) && !above(path).some((dir) => isIgnored(dir, true)));
}

test("helm ignores the same files by .helmignore", { timeout: 3_600_000 }, () => {
  const texts = textsOf("helmignore");
  const judged = judgeHelmIgnore(texts);
  const differences = texts.flatMap((text, i) => {
    const theirs = judged[i]?.filter((path) => FILES.includes(path));
    if (theirs === undefined) return [];
    const ours = listWith(text).toSorted();
    return ours.join("|") === theirs.toSorted().join("|")
      ? []
      : [`${JSON.stringify(text)}: ${ours.join()} and not ${theirs.join()}`];
  });
  report(".helmignore", { texts, judged: judged.filter(Boolean).length, differences });
});

/** The versions of the chart `web` in each index, by one process; undefined where helm refuses the index. */
function judgeIndex(texts: readonly string[]): (ReadonlySet<string> | undefined)[] {
  const dir = tempDir();
  const names = texts.map((_, i) => `r${i}`);
  const repositories = names.map((name) => ({ name, url: "http://127.0.0.1:1" }));
  writeFileSync(join(dir, "repositories.yaml"), JSON.stringify({ apiVersion: "", repositories }));
  for (const [i, text] of texts.entries()) writeFileSync(join(dir, `r${i}-index.yaml`), text);
  const places = [`--repository-config=${dir}/repositories.yaml`, `--repository-cache=${dir}`];
  const { stdout, stderr } = spawnSync(
    helmUnderTest(),
    ["search", "repo", "--versions", "--devel", "--output=json", "--fail-on-no-result=false", ...places],
    { maxBuffer: 1 << 28 },
  );
  const found = JSON.parse(stdout.toString()) as { readonly name: string; readonly version: string }[];
  // It warns of each index that it cannot read.
  const refused = new Set(
    [...stderr.toString().matchAll(/Repo \\?"(r\d+)\\?" is corrupt|repo=(r\d+)/g)].map(
      (match) => match[1] ?? match[2],
    ),
  );
  return names.map((name) =>
    refused.has(name)
      ? undefined
      : new Set(found.filter((each) => each.name === `${name}/web`).map(({ version }) => version)),
  );
}

function scan(text: string): ReadonlySet<string> {
  const scanner = new IndexScanner(["web"]);
  scanner.addText(text);
  const versions = scanner.finish().get("web") ?? [];
  return new Set(versions.map(({ version }) => version));
}

test("each version that helm reads in an index.yaml is found", { timeout: 3_600_000 }, () => {
  // What is marked as removed, helm lists. Nobody writes tags.
  const texts = textsOf("index").filter((text) => !/removed|!!/.test(text));
  const judged = judgeIndex(texts);
  const differences = texts.flatMap((text, i) => {
    const theirs = judged[i];
    if (theirs === undefined || theirs.size === 0) return [];
    try {
      const ours = scan(text);
      const missing = [...theirs].filter((version) => !ours.has(version));
      return missing.length === 0
        ? []
        : [`${JSON.stringify(text)}: ${missing.join()} not in ${[...ours].join()}`];
    } catch (error) {
      // It is stricter with digests, which it compares, and with the sizes that it reads.
      if (/no SHA-256|larger than|more than/.test(String(error))) return [];
      return [`${JSON.stringify(text)}: ${String(error)}; helm finds ${[...theirs].join()}`];
    }
  });
  report("index.yaml", { texts, judged: judged.filter((each) => (each?.size ?? 0) > 0).length, differences });
});

/** Whether the API server takes a schedule of a CronJob; it has the parser of hooks' schedules, for lines of five fields. */
async function judgeCrontab(api: Api, schedule: string): Promise<boolean> {
  const container = { name: "a", image: "a" };
  const template = { spec: { template: { spec: { restartPolicy: "Never", containers: [container] } } } };
  const body = {
    apiVersion: "batch/v1",
    kind: "CronJob",
    metadata: { name: "judged" },
    spec: { schedule, jobTemplate: template },
  };
  const { status } = await api.request("POST", "/apis/batch/v1/namespaces/default/cronjobs?dryRun=All", body);
  return status < 300;
}

function isAccepted(line: string): boolean {
  try {
    parseCrontab(line);
    return true;
  } catch (error) {
    if (error instanceof CrontabError) return false;
    throw error;
  }
}

test("the API server takes the same crontab lines", { timeout: 3_600_000 }, async () => {
  const api = Api.of(cluster().kubeconfig);
  // It has no field of seconds, and wants the time zone elsewhere.
  const isComparable = (text: string): boolean =>
    text.length < 200 && !/TZ|[\uFFFD\0]/.test(text) && !/^\s*\S+(\s+\S+){5}\s*$/.test(text);
  const texts = textsOf("crontab", RUNS * 4).filter(isComparable);
  const differences: string[] = [];
  for (const text of texts) {
    const theirs = await judgeCrontab(api, text.trim());
    // For us, Sunday is 7, too.
    const weekday = text.trim().split(/\s+/)[4] ?? "";
    if (theirs !== isAccepted(text) && (theirs || !weekday.includes("7")))
      differences.push(`${JSON.stringify(text)}: the API server ${theirs ? "takes" : "refuses"} it`);
  }
  report("crontab lines", { texts, judged: texts.length, differences });
});
