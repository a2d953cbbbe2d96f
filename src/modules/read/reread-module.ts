/** Reads one module of a tree again while others run, and tells whether its content has changed. */

import { sep } from "node:path";

import { hashFiles, readPlain, systemClock } from "../../lib/index.ts";
import type { Module, Tree } from "../../model/index.ts";
import { listChartFiles } from "../chart/chart-files.ts";
import { stat } from "./files.ts";
import { listModule } from "./listing.ts";
import { goneModule, refreshModule } from "./read-module.ts";
import { beginReading, recall, recheckAt, remember, type Reading } from "./reading.ts";
import type { ReadTreeOptions } from "./read-tree.ts";

/** What changes all the time is read so often; then the last read counts. */
const MOST_TRIES = 10;

/**
 * The tree with one module as it is on disk now; `previous` itself where nothing of the module has changed, which takes a
 * listing of its directory and opens no file. Missing files stay in force until a later read confirms that. Never throws:
 * what is wrong is the module's `problem`.
 */
export async function rereadModule(
  options: Omit<ReadTreeOptions, "previous" | "names" | "only">,
  previous: Tree,
  name: string,
): Promise<Tree> {
  const before = recall(previous);
  const module = previous.modules.find((each) => each.name === name);
  if (module === undefined || !before.modules.has(name)) return previous;
  for (let tries = 1; ; tries += 1) {
    const clock = options.clock ?? systemClock;
    const [now, monotonic] = [clock.now(), clock.monotonic()];
    const reading = beginReading({
      crdFilters: "",
      schemaDirs: [],
      ...options,
      now,
      monotonic,
      first: false,
      before,
    });
    const fresh = await refresh(reading, module);
    if (fresh === module) return previous;
    if (tries < MOST_TRIES && !isWhole(reading, name)) continue;
    const modules = previous.modules.map((each) => (each === module ? fresh : each));
    const others = [...before.missed].filter(
      ([path]) => path !== module.dir && !path.startsWith(module.dir + sep),
    );
    const after = {
      ...before,
      modules: new Map([...before.modules, ...reading.after.modules]),
      missed: new Map([...others, ...reading.after.missed]),
    };
    const next = recheckAt({ ...reading, after });
    const { recheckAt: _, ...rest } = previous;
    return remember({ ...rest, modules, ...(next !== undefined && { recheckAt: next }) }, after);
  }
}

async function refresh(reading: Reading, module: Module): Promise<Module> {
  const { name, order, dir, common } = module;
  const known = reading.before.modules.get(name);
  // A directory that was missing at the last read, too, is left to the next converge.
  if (stat(dir) === undefined) return (known && goneModule(reading, known)) ?? module;
  const { strict, crdFilters, schemaDirs, archives } = reading;
  return refreshModule(reading, { name, order, dir, common, strict, crdFilters, schemaDirs, archives });
}

function isWhole({ after }: Reading, name: string): boolean {
  const known = after.modules.get(name);
  if (known === undefined || known.fingerprint === "") return true;
  try {
    return known.fingerprint === listModule(known.module.dir).fingerprint;
  } catch {
    return false;
  }
}

/** The digest of all files that modules consist of; what cannot be read counts as missing. */
export function contentOf(modules: readonly Module[]): string {
  return hashFiles(modules.flatMap(filesOf));
}

function filesOf({ name, dir, chart, chartDir }: Module): (readonly [string, Uint8Array])[] {
  try {
    const { files, hooks } = listModule(dir);
    const own = [...files, ...hooks].filter(([rel]) => rel !== "templates");
    const ofChart = chart === "none" ? [] : listChartFiles(chartDir, chart === "synthetic");
    const paths = new Set([...own.map(([, file]) => file.path), ...ofChart.map(({ path }) => path)]);
    return [...paths].map((path) => [path, readPlain(path)] as const);
  } catch {
    return [[name, new Uint8Array()]];
  }
}
