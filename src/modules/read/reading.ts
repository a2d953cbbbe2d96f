/** One read of the directories that is under way, and what it remembers for the next one. */

import type { HookFile, Module, Problem, SchemaFiles, StaticValues, Tree } from "../../model/index.ts";
import type { CommonValues } from "../../values/index.ts";
import type { ChartArchives } from "../chart/archives.ts";
import type { DirScan } from "./scan-dir.ts";

/** What is missing must have been missing for this long before a read believes it. */
export const RECHECK_MS = 2000;

/** A module as accepted by the last read. */
export interface RememberedModule {
  readonly module: Module;
  /** The last content without a problem. */
  readonly good: Module | undefined;
  readonly paths: readonly string[];
  readonly fingerprint: string;
  /** False when a file had changed so shortly before the read that a later change could leave the same time stamp. */
  readonly settled: boolean;
}

/** A parsed `modules/values.yaml`. */
export interface RememberedValues {
  readonly signature: string;
  readonly settled: boolean;
  readonly values: CommonValues;
}

/** What the global hooks directory held at the last read. */
export interface RememberedGlobal {
  readonly hookFiles: readonly HookFile[];
  readonly idleFiles: readonly string[];
  readonly schemas: SchemaFiles;
  readonly paths: readonly string[];
}

/** Everything that a read leaves for the next one, so that only changed files are opened. */
export interface Memory {
  readonly scans: Map<string, DirScan>;
  readonly values: Map<string, RememberedValues>;
  readonly commons: Map<string, StaticValues>;
  readonly modules: Map<string, RememberedModule>;
  global: RememberedGlobal | undefined;
  /** When a path was first found missing, in ms since the epoch. */
  readonly missed: Map<string, number>;
}

const memories = new WeakMap<Tree, Memory>();

/** A memory with nothing in it. */
function emptyMemory(): Memory {
  return {
    scans: new Map(),
    values: new Map(),
    commons: new Map(),
    modules: new Map(),
    global: undefined,
    missed: new Map(),
  };
}

/** Keeps `memory` for as long as `tree` is in use. */
export function remember(tree: Tree, memory: Memory): Tree {
  memories.set(tree, memory);
  return tree;
}

/** The memory of the read that made `tree`. */
export function recall(tree: Tree | undefined): Memory {
  return (tree && memories.get(tree)) ?? emptyMemory();
}

/** One read under way: what the last one left, and what this one finds. */
export interface Reading {
  /** Milliseconds since the epoch, to compare with times of files. */
  readonly now: number;
  /** The same moment by the monotonic clock, for how long something is missing. */
  readonly monotonic: number;
  readonly unnumberedOrder: number;
  readonly strict: boolean;
  readonly crdFilters: string;
  readonly schemaDirs: readonly string[];
  readonly archives: ChartArchives;
  /** The directory of the one module that is read; the others are only named. Undefined: all of them. */
  readonly only?: string | undefined;
  /** Of modules that are known, only these are read again; undefined: all of them. */
  readonly names?: ReadonlySet<string> | undefined;
  /** There is no earlier read whose content could stay in force. */
  readonly first: boolean;
  readonly before: Memory;
  readonly after: Memory;
  readonly problems: Problem[];
  readonly refused: Problem[];
  readonly warnings: string[];
  readonly holds: string[];
}

/** Begins a read. */
export function beginReading(
  start: Omit<Reading, "after" | "problems" | "refused" | "warnings" | "holds">,
): Reading {
  return { ...start, after: emptyMemory(), problems: [], refused: [], warnings: [], holds: [] };
}

/** Notes that each of `paths` is missing; true when all of them have been for long enough, in an earlier read too. */
export function confirmGone(reading: Reading, paths: readonly string[]): boolean {
  for (const path of paths) reading.after.missed.set(path, missedSince(reading, path));
  return paths.every((path) => reading.monotonic - missedSince(reading, path) >= RECHECK_MS);
}

/** When `path` was first missing: now, if the last read still saw it. */
export function missedSince(reading: Reading, path: string): number {
  return reading.before.missed.get(path) ?? reading.monotonic;
}

/** When another read could confirm what is missing now; undefined when nothing is. */
export function recheckAt(reading: Reading): number | undefined {
  const due = [...reading.after.missed.values()].map((since) => since + RECHECK_MS);
  const open = due.filter((at) => at > reading.monotonic);
  return open.length === 0 ? undefined : Math.min(...open);
}
