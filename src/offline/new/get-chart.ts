/** Brings a chart into a directory of a module. */

import { cpSync, existsSync, readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";

import type { Environment, Settings } from "../../config.ts";
import { hookEnvironment } from "../../hooks/index.ts";
import { parseJson } from "../../lib/index.ts";
import { ProblemError, objectsIn, textOf } from "../../model/index.ts";
import type { ChartSource } from "../../modules/index.ts";
import { run } from "../../process/index.ts";
import type { RunResult } from "../../process/index.ts";

/** The chart that is wanted: a directory, an archive, or what helm can pull. */
export interface WantedChart {
  readonly ref: string;
  readonly version: string | undefined;
  readonly repo: string | undefined;
}

/** A chart as it came. */
export interface GotChart {
  /** Its name in the directory. */
  readonly path: string;
  /** Where helm pulled it, without the version; undefined for what lay here, and for the URL of one archive. */
  readonly source: Omit<ChartSource, "version"> | undefined;
}

interface HelmCaller {
  readonly settings: Settings;
  readonly env: Environment;
}

/** Copies or pulls a chart into `dir`. Throws ProblemError. */
export async function getChart(chart: WantedChart, dir: string, caller: HelmCaller): Promise<GotChart> {
  const { ref, version, repo } = chart;
  if (repo !== undefined || !existsSync(ref)) {
    const path = await pull(chart, dir, caller);
    return { path, source: await sourceOf(chart, caller) };
  }
  if (version !== undefined)
    throw problem(ref, "is a file or directory, which has one version", "leave out --version");
  const from = resolve(ref);
  const isDirectory = statSync(from).isDirectory();
  if (isDirectory && !existsSync(join(from, "Chart.yaml")))
    throw problem(from, "holds no Chart.yaml: it is no chart", "name the directory of a chart");
  const path = isDirectory ? "chart" : basename(from);
  const filter = (file: string): boolean => basename(file) !== ".git";
  cpSync(from, join(dir, path), { recursive: true, verbatimSymlinks: true, filter });
  return { path, source: undefined };
}

/** With the repositories and registries that helm knows for this user. */
async function pull({ ref, version, repo }: WantedChart, dir: string, caller: HelmCaller): Promise<string> {
  const options = { version, repo, destination: dir };
  const flags = Object.entries(options).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}=${value}`],
  );
  const before = new Set(readdirSync(dir));
  const result = await helm(["pull", ref, ...flags], caller);
  const [pulled] = readdirSync(dir).filter((name) => !before.has(name));
  if (result.outcome === "succeeded" && pulled !== undefined) return pulled;
  const said = result.stderr.trim().split("\n").at(-1) ?? "";
  throw problem(
    ref,
    `is no file here, and helm cannot pull it: ${said || result.message}`,
    "see helm search, helm repo add",
  );
}

/** In words that mean the same to everybody: a name for a repository is this user's own. */
async function sourceOf({ ref, repo }: WantedChart, caller: HelmCaller): Promise<GotChart["source"]> {
  if (repo !== undefined) return { repo: withoutUser(repo), chart: ref };
  if (/^https?:/.test(ref)) return undefined;
  const [name = "", ...rest] = ref.split("/");
  const url = ref.startsWith("oci:") ? undefined : await urlOf(name, caller);
  return url === undefined ? { chart: ref } : { repo: withoutUser(url), chart: rest.join("/") };
}

async function urlOf(name: string, caller: HelmCaller): Promise<string | undefined> {
  const { outcome, stdout } = await helm(["repo", "list", "--output=json"], caller);
  const repos = outcome === "succeeded" ? parseJson(stdout) : [];
  return textOf(objectsIn(repos).find((repo) => repo["name"] === name)?.["url"]);
}

/** What is written into a file that others read. */
function withoutUser(repo: string): string {
  const url = new URL(repo);
  url.username = "";
  url.password = "";
  return url.href.replace(/\/$/, "");
}

function helm(args: readonly string[], { settings, env }: HelmCaller): Promise<RunResult> {
  const { helmBin, helmTimeoutMs } = settings;
  const surroundings = { cwd: process.cwd(), env: hookEnvironment(env), timeoutMs: helmTimeoutMs };
  return run({ file: helmBin, args, ...surroundings });
}

function problem(file: string, message: string, remedy: string): ProblemError {
  return new ProblemError([{ file, message, remedy }]);
}
