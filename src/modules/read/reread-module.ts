/** Reads one module of a tree again while other modules run. */

import { sep } from "node:path";

import { hashFiles, readRegularFile } from "../../lib/index.ts";
import type { Module, Tree } from "../../model/index.ts";
import { listChartFiles } from "../chart/chart-files.ts";
import { stat } from "./files.ts";
import { listModule } from "./listing.ts";
import { beginReading, recall, recheckAt, keepMemory } from "./reading.ts";
import type { Reading, ReadTreeOptions } from "./reading.ts";
import { isAsListed, missingModule, refreshModule } from "./refresh-module.ts";

/** Most reads of a module whose files keep changing; then the last read is used. */
const MOST_TRIES = 10;

/**
 * The tree with one module as it is on disk now; `previous` itself if nothing has changed, which a listing of
 * the directory decides without opening files. Missing files stay in force until a later read confirms the deletion. Never
 * throws: errors are in the module's `problem`.
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
    const reading = beginReading({ ...options, previous });
    const fresh = await refresh(reading, module);
    if (fresh === module) return previous;
    const read = reading.after.modules.get(name);
    if (tries < MOST_TRIES && read !== undefined && !isAsListed(read)) continue;
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
    return keepMemory({ ...rest, modules, ...(next !== undefined && { recheckAt: next }) }, after);
  }
}

/** Reads a module again; keeps it while its directory is missing, because only a converge removes modules. */
async function refresh(reading: Reading, module: Module): Promise<Module> {
  const { name, order, dir, common } = module;
  const known = reading.before.modules.get(name);
  // The next converge handles a directory that was missing at the last read, too.
  if (stat(dir) === undefined) return (known && missingModule(reading, known)) ?? module;
  return refreshModule(reading, { name, order, dir, common });
}

/** The digest of all files of modules. A module with an unreadable file counts as one empty file. */
export function moduleContent(modules: readonly Module[]): string {
  return hashFiles(modules.flatMap(filesOf));
}

/** Paths and contents of all files of a module and its chart. */
function filesOf({ name, dir, chart, chartDir }: Module): (readonly [string, Uint8Array])[] {
  try {
    const { files, hooks } = listModule(dir);
    const own = [...files, ...hooks].filter(([rel]) => rel !== "templates");
    const ofChart = chart === "none" ? [] : listChartFiles(chartDir, chart === "synthetic");
    const paths = new Set([...own.map(([, file]) => file.path), ...ofChart.map(({ path }) => path)]);
    return [...paths].map((path) => [path, readRegularFile(path)] as const);
  } catch {
    return [[name, new Uint8Array()]];
  }
}
