/** What a read of the directories remembers for the next one. */

import type { HookFile, Module, SchemaFiles, StaticValues, Tree } from "../model/index.ts";
import type { CommonValues } from "../values/index.ts";
import type { DirScan } from "./read/scan-dir.ts";

/** What is missing must have been missing for this long before a read believes it. */
export const CONFIRM_MS = 2000;

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
export function emptyMemory(): Memory {
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
