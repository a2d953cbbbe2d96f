/** Reads one module of a tree again while other modules run. */

import { sep } from "node:path";

import { hashFiles, readRegularFile } from "../../lib/index.ts";
import type { Module, Tree } from "../../model/index.ts";
import { listChartFiles } from "../chart/chart-files.ts";
import { stat } from "./files.ts";
import { listModule } from "./listing.ts";
import { beginReading, recallMemory, nextRecheckAt, keepMemory } from "./reading.ts";
import type { Reading, ReadTreeOptions } from "./reading.ts";
import { isListingCurrent, keepUntilConfirmedMissing, refreshModule } from "./refresh-module.ts";

/** Most reads of a module whose files keep changing; then the last read is used. */
const MOST_TRIES = 10;

/**
 * The tree with one module as it is on disk now; `previous` itself if nothing has changed, which a listing of
 * the directory decides without opening files. Missing files stay in force until a later read confirms the deletion. Never
 * throws: errors are in the module's `problem`.
 */
export async function rereadModule(
  options: Omit<ReadTreeOptions, "previous" | "namesToRead" | "onlyDir">,
  previous: Tree,
  name: string,
): Promise<Tree> {
  const before = recallMemory(previous);
  const module = previous.modules.find((each) => each.name === name);
  if (module === undefined || !before.modules.has(name)) return previous;
  for (let tries = 1; ; tries += 1) {
    const reading = beginReading({ ...options, previous });
    const fresh = await rereadOrKeep(reading, module);
    if (fresh === module) return previous;
    const remembered = reading.after.modules.get(name);
    if (tries < MOST_TRIES && remembered !== undefined && !isListingCurrent(remembered)) continue;
    const modules = previous.modules.map((each) => (each === module ? fresh : each));
    const missingElsewhere = [...before.missingSince].filter(
      ([path]) => path !== module.dir && !path.startsWith(module.dir + sep),
    );
    const after = {
      ...before,
      modules: new Map([...before.modules, ...reading.after.modules]),
      missingSince: new Map([...missingElsewhere, ...reading.after.missingSince]),
    };
    const next = nextRecheckAt({ ...reading, after });
    const { recheckAt: _, ...rest } = previous;
    return keepMemory({ ...rest, modules, ...(next !== undefined && { recheckAt: next }) }, after);
  }
}

/** Reads a module again; keeps the module while its directory is missing, because only a converge removes modules. */
async function rereadOrKeep(reading: Reading, module: Module): Promise<Module> {
  const { name, order, dir, common } = module;
  const known = reading.before.modules.get(name);
  // The next converge handles a directory that was missing at the last read, too.
  if (stat(dir) === undefined) return (known && keepUntilConfirmedMissing(reading, known)) ?? module;
  return refreshModule(reading, { name, order, dir, common });
}

/**
 * Digest of all files of modules, by which a converge notices that hooks have written into the directories. A module
 * with an unreadable file counts as one empty file.
 */
export function hashModuleFiles(modules: readonly Module[]): string {
  return hashFiles(modules.flatMap(readFiles));
}

/** Paths and contents of all files of a module and its chart. */
function readFiles({ name, dir, chart, chartDir }: Module): (readonly [string, Uint8Array])[] {
  try {
    const { files, hooks } = listModule(dir);
    const moduleFiles = [...files, ...hooks].filter(([rel]) => rel !== "templates");
    const chartFiles = chart === "none" ? [] : listChartFiles(chartDir, chart === "synthetic");
    const paths = new Set([
      ...moduleFiles.map(([, file]) => file.path),
      ...chartFiles.map(({ path }) => path),
    ]);
    return [...paths].map((path) => [path, readRegularFile(path)] as const);
  } catch {
    return [[name, new Uint8Array()]];
  }
}
