/** Reads the modules directories and the global hooks directory into a tree. */

import { existsSync, realpathSync } from "node:fs";
import { join } from "node:path";

import { breathe, systemClock, type Clock } from "../../lib/index.ts";
import { camelCase, collect, describeProblem, ProblemError } from "../../model/index.ts";
import type { Module, Problem, SchemaFiles, Tree } from "../../model/index.ts";
import { compileSchemas } from "../../values/index.ts";
import type { ChartArchives } from "../chart/archives.ts";
import { commonOf, mergeGlobals, placeIn, readCommonFiles, type CommonFile } from "./common-values.ts";
import { fileProblem, type Found } from "./files.ts";
import { addFile, findHookFiles, hookFilesOf, idleHooks, listModule, SCHEMA_FILES } from "./listing.ts";
import { goneModule, idleWarning, keep, readSchemas, refreshModule } from "./read-module.ts";
import { beginReading, confirmGone, recall, RECHECK_MS, recheckAt, remember } from "./reading.ts";
import type { Reading, RememberedGlobal, RememberedModule } from "./reading.ts";
import { byOrder, flagCollision, scanDir, type Candidate, type DirScan } from "./scan-dir.ts";

export interface ReadTreeOptions {
  /** Absolute paths; where two directories have a module of one name, the first wins. */
  readonly modulesDirs: readonly string[];
  readonly globalHooksDir: string | undefined;
  /** Order of modules without a number. */
  readonly unnumberedOrder: number;
  /** A missing values.yaml, in a modules directory or a module, is an error. */
  readonly strict: boolean;
  /** `--crd-filters`; nothing is filtered where it is left out. */
  readonly crdFilters?: string;
  /** `--schema-dirs`. */
  readonly schemaDirs?: readonly string[];
  /** The last read: its content stays in force where something is broken or missing now. */
  readonly previous?: Tree | undefined;
  /** Where charts that are archives are unpacked. */
  readonly archives: ChartArchives;
  /** The directory of the one module to read; of the others only names count. */
  readonly only?: string | undefined;
  /** Of modules that are known, only these are read again. */
  readonly names?: ReadonlySet<string> | undefined;
  readonly clock?: Clock;
}

const SLICE = 64;

/** What changes all the time is read so often; then the last read counts once more. */
const MOST_TRIES = 10;

/**
 * Reads the modules directories and the global hooks directory, again where they changed meanwhile. Only files that
 * changed since `previous` are opened. Throws ProblemError when a modules directory cannot be read and there is no
 * `previous`; everything else that is wrong is in the tree.
 */
export async function readTree(options: ReadTreeOptions): Promise<Tree> {
  const { modulesDirs, globalHooksDir, previous } = options;
  const dirs = [...modulesDirs, ...(globalHooksDir === undefined ? [] : [globalHooksDir])];
  for (let tries = 1; ; tries += 1) {
    const places = realPlaces(dirs);
    const { tree, reading } = await readOnce(options);
    if (places === realPlaces(dirs) && isWhole(reading)) return tree;
    if (tries === MOST_TRIES) return previous === undefined ? tree : asBefore(previous, reading.monotonic);
    await breathe();
  }
}

/** The last read, and when to look again. */
function asBefore(previous: Tree, now: number): Tree {
  return remember({ ...previous, recheckAt: now + RECHECK_MS }, recall(previous));
}

async function readOnce(options: ReadTreeOptions): Promise<{ tree: Tree; reading: Reading }> {
  const clock = options.clock ?? systemClock;
  const reading = beginReading({
    crdFilters: "",
    schemaDirs: [],
    ...options,
    now: clock.now(),
    monotonic: clock.monotonic(),
    first: options.previous === undefined,
    before: recall(options.previous),
  });
  const scans = scanAll(reading, options.modulesDirs);
  const files = readCommonFiles(
    reading,
    scans.map((one) => one.scan),
  );
  const modules = withoutCollisions(reading, scans, await readModules(reading, scans, files));
  // What the last read unpacked may still be in use; what others read from there is left to the next reload.
  const used = [...(options.previous?.modules ?? []), ...modules];
  if (options.previous !== undefined)
    await options.archives.keep(new Set(used.map((module) => module.chartDir)));
  const global = readGlobal(reading, options.globalHooksDir);
  const globalValues = mergeGlobals(files);
  const next = recheckAt(reading);
  const tree: Tree = remember(
    {
      modules,
      globalValues,
      globalPlaceOf: (pointer) => placeIn(files, pointer),
      globalSchemas: global.schemas,
      globalHookFiles: global.hookFiles,
      idleFiles: global.idleFiles,
      problems: reading.problems,
      warnings: reading.warnings,
      purgeHolds: reading.holds,
      refused: reading.refused,
      ...(next === undefined ? {} : { recheckAt: next }),
    },
    reading.after,
  );
  return { tree, reading };
}

interface Scanned {
  readonly scan: DirScan;
  /** The directory can be read now; otherwise `scan` is what the last read saw. */
  readonly readable: boolean;
}

function scanAll(reading: Reading, dirs: readonly string[]): Scanned[] {
  const fatal: Problem[] = [];
  const scans = dirs.flatMap((dir) => {
    const scanned = scanOne(reading, dir, fatal);
    if (scanned !== undefined) reading.after.scans.set(dir, scanned.scan);
    return scanned === undefined ? [] : [scanned];
  });
  if (fatal.length > 0) throw new ProblemError(fatal);
  return scans;
}

function scanOne(reading: Reading, dir: string, fatal: Problem[]): Scanned | undefined {
  try {
    const scan = scanDir(dir, reading.unnumberedOrder);
    reading.refused.push(...scan.refused);
    reading.warnings.push(...scan.warnings);
    reading.holds.push(...scan.holds);
    return { scan, readable: true };
  } catch (error) {
    const problem = { ...fileProblem(dir, error), remedy: "create it, or correct --modules-dir" };
    if (reading.first) fatal.push(problem);
    reading.warnings.push(describeProblem(problem));
    reading.holds.push(describeProblem(problem));
    const scan = reading.before.scans.get(dir);
    return scan === undefined ? undefined : { scan, readable: false };
  }
}

async function readModules(
  reading: Reading,
  scans: readonly Scanned[],
  files: readonly CommonFile[],
): Promise<Module[]> {
  const modules = new Map<string, Module>();
  let count = 0;
  for (const { scan, readable } of scans) {
    for (const candidate of scan.candidates) {
      if (reading.only !== undefined && candidate.dir !== reading.only) continue;
      if (++count % SLICE === 0) await breathe();
      const first = modules.get(candidate.name);
      if (first === undefined)
        modules.set(candidate.name, await readCandidate(reading, candidate, { files, readable }));
      else reading.warnings.push(`${candidate.dir}: left out, module "${first.name}" is ${first.dir}`);
    }
  }
  for (const [name, before] of reading.before.modules) {
    const held = modules.has(name) ? undefined : goneModule(reading, before);
    if (held !== undefined) modules.set(name, held);
  }
  return [...modules.values()].sort(byOrder);
}

async function readCandidate(
  reading: Reading,
  candidate: Candidate,
  { files, readable }: { files: readonly CommonFile[]; readable: boolean },
): Promise<Module> {
  const before = reading.before.modules.get(candidate.name);
  const isKept = !readable || reading.names?.has(candidate.name) === false;
  if (isKept && before !== undefined) return keep(reading, before);
  const common = commonOf(reading, files, camelCase(candidate.name));
  const { strict, crdFilters, schemaDirs, archives } = reading;
  return refreshModule(reading, { ...candidate, common, strict, crdFilters, schemaDirs, archives });
}

function withoutCollisions(
  reading: Reading,
  scans: readonly Scanned[],
  modules: readonly Module[],
): Module[] {
  const named = scans.flatMap(({ scan }) => scan.candidates);
  const names = new Set([...named, ...modules].map(({ name }) => name));
  return modules.filter((module) => {
    const other = flagCollision(module.name, names);
    if (other === undefined) return true;
    const message = `no module: its values key ${module.valuesKey} is a flag of module "${other}"`;
    const problem = { file: module.dir, message, remedy: "rename one of the two directories" };
    reading.refused.push(problem);
    reading.warnings.push(describeProblem(problem));
    reading.holds.push(describeProblem(problem));
    return false;
  });
}

const NO_GLOBALS: RememberedGlobal = { hookFiles: [], idleFiles: [], schemas: {}, paths: [] };

/**
 * Hooks and schemas of the global hooks directory: hooks in its `hooks/` where that exists, else in the directory
 * itself. A missing directory is a warning; a broken one is a problem and keeps the content of the last read.
 */
function readGlobal(reading: Reading, dir: string | undefined): RememberedGlobal {
  const before = reading.before.global;
  const global = dir === undefined ? NO_GLOBALS : (tryGlobal(reading, dir) ?? before ?? NO_GLOBALS);
  const missing = (before?.paths ?? []).filter((path) => !global.paths.includes(path));
  const held = before !== undefined && missing.length > 0 && !confirmGone(reading, missing);
  const kept = held ? before : global;
  reading.after.global = kept;
  return kept;
}

function tryGlobal(reading: Reading, dir: string): RememberedGlobal | undefined {
  try {
    return readGlobalDir(reading, dir);
  } catch (error) {
    reading.problems.push(...(error instanceof ProblemError ? error.problems : [fileProblem(dir, error)]));
    return undefined;
  }
}

function readGlobalDir(reading: Reading, dir: string): RememberedGlobal {
  if (!existsSync(dir)) {
    reading.warnings.push(`${dir}: there is no such directory, so there are no global hooks`);
    return NO_GLOBALS;
  }
  const root = existsSync(join(dir, "hooks")) ? join(dir, "hooks") : dir;
  const hooks = findHookFiles(root);
  const schemaFiles = findSchemas(dir);
  return {
    hookFiles: hookFilesOf(root, hooks),
    idleFiles: idleHooks(hooks).map(idleWarning),
    schemas: goodSchemas(reading, readSchemas([dir, ...reading.schemaDirs], schemaFiles)),
    paths: [...hooks.values(), ...schemaFiles.values()].map((file) => file.path),
  };
}

/** Schemas that cannot be used are a problem; those of the last read stay in force. */
function goodSchemas(reading: Reading, files: SchemaFiles): SchemaFiles {
  const compiled = collect(reading.problems, () => compileSchemas(files));
  return compiled === undefined ? (reading.before.global?.schemas ?? {}) : files;
}

function findSchemas(dir: string): Map<string, Found> {
  const files = new Map<string, Found>();
  for (const rel of Object.values(SCHEMA_FILES)) addFile(files, dir, rel);
  return files;
}

/** Where each of `dirs` leads; git-sync and ConfigMap volumes swap a link for another version. */
function realPlaces(dirs: readonly string[]): string {
  return dirs.map((dir) => orEmpty(() => realpathSync(dir))).join("\n");
}

/** Whether the modules that were read again are still as they were listed before that. */
function isWhole({ before, after }: Reading): boolean {
  return [...after.modules.values()].every(
    (each) => each === before.modules.get(each.module.name) || isAsListed(each),
  );
}

/** A module that could not be listed has no fingerprint, and nothing was read of it. */
function isAsListed({ fingerprint, module }: RememberedModule): boolean {
  return fingerprint === "" || fingerprint === orEmpty(() => listModule(module.dir).fingerprint);
}

function orEmpty(read: () => string): string {
  try {
    return read();
  } catch {
    return "";
  }
}
