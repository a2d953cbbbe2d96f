/** Brings a chart into the directory of a new module. */

import { cpSync, existsSync, readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";

import type { Environment, Settings } from "../../config.ts";
import { hookEnvironment } from "../../hooks/index.ts";
import { ProblemError } from "../../model/index.ts";
import { run } from "../../process/index.ts";

/** Where a chart comes from: a directory, an archive, or what helm can pull. */
export interface ChartSource {
  readonly ref: string;
  readonly version: string | undefined;
  readonly repo: string | undefined;
}

/** Copies or pulls a chart into `dir`; returns its name there. Throws ProblemError. */
export async function getChart(
  source: ChartSource,
  dir: string,
  { settings, env }: { settings: Settings; env: Environment },
): Promise<string> {
  if (source.repo !== undefined || !existsSync(source.ref)) return pull(source, dir, { settings, env });
  if (source.version !== undefined)
    throw problem(source.ref, "is a file or directory, which has one version", "leave out --version");
  const from = resolve(source.ref);
  const isDirectory = statSync(from).isDirectory();
  if (isDirectory && !existsSync(join(from, "Chart.yaml")))
    throw problem(from, "holds no Chart.yaml: it is no chart", "name the directory of a chart");
  const name = isDirectory ? "chart" : basename(from);
  const filter = (path: string): boolean => basename(path) !== ".git";
  cpSync(from, join(dir, name), { recursive: true, verbatimSymlinks: true, filter });
  return name;
}

/** With the repositories and registries that helm knows for this user. */
async function pull(
  { ref, version, repo }: ChartSource,
  dir: string,
  { settings, env }: { settings: Settings; env: Environment },
): Promise<string> {
  const options = { version, repo, destination: dir };
  const flags = Object.entries(options).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}=${value}`],
  );
  const before = new Set(readdirSync(dir));
  const result = await run({
    file: settings.helmBin,
    args: ["pull", ref, ...flags],
    cwd: process.cwd(),
    env: hookEnvironment(env),
    timeoutMs: settings.helmTimeoutMs,
  });
  const [pulled] = readdirSync(dir).filter((name) => !before.has(name));
  if (result.outcome === "succeeded" && pulled !== undefined) return pulled;
  const said = result.stderr.trim().split("\n").at(-1) ?? "";
  throw problem(
    ref,
    `is no file here, and helm cannot pull it: ${said || result.message}`,
    "see helm search, helm repo add",
  );
}

function problem(file: string, message: string, remedy: string): ProblemError {
  return new ProblemError([{ file, message, remedy }]);
}
