/**
 * One read of the directories, and its memory: the state that it keeps for the next read, so that only changed files are
 * opened, and so that deletions are confirmed by a second read. `before` is that of the last read, `after` that of this one.
 */

import { existsSync } from "node:fs";

import { MissingItems, systemClock, type Clock } from "../../base/index.ts";
import { describeProblem } from "../../base/model/index.ts";
import type { AddonCheck, HookFile, Json, Module, ModuleOrigin, Problem } from "../../base/model/index.ts";
import type { SchemaFiles, StaticValues, Tree } from "../../base/model/index.ts";
import type { CommonValues } from "../../values/index.ts";
import type { ChartArchives } from "../chart/archives.ts";
import type { Fingerprint } from "./fingerprint.ts";
import type { DirScan } from "./scan-dir.ts";

/** A missing path counts as deleted only after a second check this much later. */
export const RECHECK_MS = 2000;

/** A module as the last read left it, to detect changes and to fall back to. */
export interface RememberedModule {
  readonly module: Module;
  /** The module of the last read without a problem; undefined if there was none. */
  readonly lastValid: Module | undefined;
  readonly paths: readonly string[];
  /** Undefined if the directory could not be listed. */
  readonly fingerprint: Fingerprint | undefined;
  /** Wall-clock time of the read in ms. */
  readonly readAt: number;
}

/** A parsed `modules/values.yaml` of the last read, with the fingerprint of its file and the time of the read. */
export interface RememberedValues {
  readonly fingerprint: Fingerprint;
  readonly readAt: number;
  readonly values: CommonValues;
}

/** Hooks and schemas of the global hooks directory as the last read left them, and all of their paths to detect missing files. */
export interface GlobalHooks {
  readonly hookFiles: readonly HookFile[];
  readonly notExecutableWarnings: readonly string[];
  readonly schemas: SchemaFiles;
  readonly paths: readonly string[];
}

/** State that a read keeps for the next one, so that only changed files are opened. */
export interface Memory {
  readonly scans: Map<string, DirScan>;
  readonly values: Map<string, RememberedValues>;
  readonly commonValues: Map<string, StaticValues>;
  readonly modules: Map<string, RememberedModule>;
  globalHooks: GlobalHooks | undefined;
  /** When a path was first found missing, on the monotonic clock in ms. */
  missingSince: ReadonlyMap<string, number>;
}

/** The memory of each tree. It is not part of the tree, because only this package may use it; it is freed with its tree. */
const memories = new WeakMap<Tree, Memory>();

function emptyMemory(): Memory {
  return {
    scans: new Map(),
    values: new Map(),
    commonValues: new Map(),
    modules: new Map(),
    globalHooks: undefined,
    missingSince: new Map(),
  };
}

/** Stores `memory` for the read that follows `tree`, for as long as the tree is in use. Returns the tree. */
export function keepMemory(tree: Tree, memory: Memory): Tree {
  memories.set(tree, memory);
  return tree;
}

/** Returns the memory of the read that made `tree`; an empty one without a tree. */
export function recallMemory(tree: Tree | undefined): Memory {
  return (tree && memories.get(tree)) ?? emptyMemory();
}

/** Modules from registries, which `sources/` keeps in a directory of their own. Its members change; its identity does not. */
export interface RegistryModules {
  /** Undefined before the directory exists. */
  dir: string | undefined;
  /** By name of the module. */
  origins: ReadonlyMap<string, ModuleOrigin>;
  /** Reasons not to purge releases. */
  purgeBlockers: readonly string[];
  /** Puts lost links and content into the directory again, before it is read. Never throws. */
  restore?: () => Promise<void>;
  /** Returns ModuleSources, lock and keys for a support archive. */
  describeSources?: () => Json;
}

/** The directories to read, and how. */
export interface ReadTreeOptions {
  /** Absolute paths; if two directories contain a module of one name, the first wins. */
  readonly modulesDirs: readonly string[];
  readonly globalHooksDir: string | undefined;
  readonly unnumberedOrder: number;
  /** A missing values.yaml, in a modules directory or a module, is an error. */
  readonly strict: boolean;
  /** `--crd-filters`; default: no filter. */
  readonly crdFilters?: string;
  readonly schemaDirs?: readonly string[];
  /** The last read: its content stays in force for files that are broken or missing now. */
  readonly previous?: Tree | undefined;
  /** Unpacks charts that are archives. */
  readonly archives: ChartArchives;
  /** Namespace of modules whose `addon.yaml` names none, with `{name}` for the name of the module. */
  readonly namespaceTemplate?: string | undefined;
  /** Whether `enabled` scripts count (`--applied-module-extenders`); default: they do. */
  readonly isScriptApplied?: boolean;
  /** Returns why the operator's settings do not allow what `addon.yaml` says; without it, everything is allowed. */
  readonly findRefusal?: AddonCheck | undefined;
  /** Modules from registries; their directory comes last. */
  readonly registryModules?: RegistryModules | undefined;
  /** The directory of the only module to read; the others are only named. */
  readonly onlyDir?: string | undefined;
  /** Names of the known modules to read again; undefined = all. */
  readonly namesToRead?: ReadonlySet<string> | undefined;
  readonly clock?: Clock;
}

/** One read in progress, with the state of the last one. */
export interface Reading {
  readonly options: ReadTreeOptions;
  /** Milliseconds since the epoch, to compare with times of files. */
  readonly now: number;
  /** Paths that this read misses, although the last one found them. */
  readonly missing: MissingItems;
  readonly before: Memory;
  readonly after: Memory;
  readonly problems: Problem[];
  readonly refused: Problem[];
  readonly warnings: string[];
  readonly purgeBlockers: string[];
}

/** Begins a read: takes the time, and the memory of the last read. */
export function beginReading(options: ReadTreeOptions): Reading {
  const { clock = systemClock, previous } = options;
  const [before, after] = [recallMemory(previous), emptyMemory()];
  const missing = new MissingItems(clock.monotonic(), RECHECK_MS, before.missingSince);
  after.missingSince = missing.since;
  const now = clock.now();
  return { options, now, missing, before, after, problems: [], refused: [], warnings: [], purgeBlockers: [] };
}

/** Warns that modules could not be read; as long as that is so, no release is purged. */
export function reportNotRead({ warnings, purgeBlockers }: Reading, problem: Problem): void {
  warnings.push(describeProblem(problem));
  purgeBlockers.push(describeProblem(problem));
}

/** The paths that are not among `others`. */
export function without(paths: readonly string[], others: readonly string[]): string[] {
  const known = new Set(others);
  return paths.filter((path) => !known.has(path));
}

/**
 * Records that `paths` are missing. Returns whether all of them count as deleted: a volume that is being swapped misses files
 * for a moment only.
 */
export function confirmMissing({ missing }: Reading, paths: readonly string[]): boolean {
  return paths.map((path) => missing.confirm(path)).every(Boolean);
}

/**
 * Whether a module's directory is still missing `RECHECK_MS` after a read first missed it. Looks at the disk itself
 * instead of waiting for the next read, which may wait in turn for the run of the module that requests this: a renamed one, whose
 * helm hooks still belong to the release of the old name.
 */
export function isConfirmedMissing(
  { dir, unconfirmedMissing: missing }: Pick<Module, "dir" | "unconfirmedMissing">,
  clock: Pick<Clock, "monotonic">,
): boolean {
  if (missing === undefined || existsSync(dir)) return false;
  return new MissingItems(clock.monotonic(), RECHECK_MS, new Map([[dir, missing.since]])).confirm(dir);
}
