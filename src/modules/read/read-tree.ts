/**
 * Reads the modules directories and the global hooks directory into a tree. A `Reading` is one such read: its `before` is the
 * memory of the last read, its `after` the memory for the next one. A scan lists the candidates, directories of modules.
 */

import { existsSync, realpathSync } from "node:fs";
import { join } from "node:path";

import { attempt, systemClock, yieldToEventLoop } from "../../base/index.ts";
import { camelCase, collect, ProblemError } from "../../base/model/index.ts";
import type { Module, Problem, SchemaFiles, Tree } from "../../base/model/index.ts";
import { compileSchemas } from "../../values/index.ts";
import { findFirstPosition, mergeCommonValues, mergeGlobals, readCommonFiles } from "./common-values.ts";
import type { CommonFile } from "./common-values.ts";
import { fileProblem, findFiles } from "./files.ts";
import {
  findMisfits,
  GLOBAL_KINDS,
  listHooks,
  toHookFiles,
  warnOfUnusableHooks,
  SCHEMA_FILES,
} from "./listing.ts";
import { loadRuleLanguage, readSchemas, toProblems } from "./read-module.ts";
import {
  beginReading,
  without,
  confirmMissing,
  keepMemory,
  recallMemory,
  RECHECK_MS,
  reportNotRead,
  type GlobalHooks,
  type RememberedModule,
  type Reading,
  type ReadTreeOptions,
} from "./reading.ts";
import {
  isListingCurrent,
  keepUntilConfirmedMissing,
  refreshModule,
  rememberModule,
  rereadModule,
} from "./refresh-module.ts";
import { byOrder, findFlagCollision, scanDir, type ModuleDirectory, type DirScan } from "./scan-dir.ts";

/** Modules that are read before the event loop gets a turn, so that probes and watches are not delayed. */
const MODULES_PER_SLICE = 64;

/** Most reads of directories that keep changing; then the previous read stays in force. */
const MAX_TRIES = 10;

/** What stays the same for all reads of an operator. */
type FixedOptions = Omit<ReadTreeOptions, "previous" | "namesToRead" | "onlyDir">;

/** Reads the directories that the settings of an operator name: all of them, or one module again. */
export class TreeReader {
  readonly #options: FixedOptions;

  constructor(options: FixedOptions) {
    this.#options = options;
  }

  /**
   * Reads all directories, or with `names` files of these modules only. Broken files keep the version of `previous`, the tree
   * that was read before (undefined at a start), and missing ones stay until the deletion is confirmed.
   */
  readTree(previous?: Tree, names?: ReadonlySet<string>): Promise<Tree> {
    return readTree({ ...this.#options, previous, namesToRead: names });
  }

  /** Reads one module again; returns `previous` itself if nothing of the module has changed. */
  rereadModule(previous: Tree, name: string): Promise<Tree> {
    return rereadModule(this.#options, previous, name);
  }

  /** Reads a modules directory that the settings do not name, such as a candidate from a registry. */
  readModulesDir(modulesDir: string): Promise<Tree> {
    const onlyModules = { globalHooksDir: undefined, registryModules: undefined };
    return readTree({ ...this.#options, ...onlyModules, modulesDirs: [modulesDir] });
  }
}

/**
 * Reads the modules directories and the global hooks directory, and repeats the read if they changed meanwhile. Opens
 * only files that changed since `previous`. Throws ProblemError if a modules directory cannot be read and there is no
 * `previous`; all other problems are in the tree.
 */
export async function readTree(options: ReadTreeOptions): Promise<Tree> {
  const { globalHooksDir, previous } = options;
  await options.registryModules?.restore?.();
  const dirs = [...listModulesDirs(options), ...(globalHooksDir === undefined ? [] : [globalHooksDir])];
  for (let tries = 1; ; tries += 1) {
    // git-sync and volumes of ConfigMaps replace a link to switch all files at once.
    const realPaths = joinedRealPaths(dirs);
    const { tree, reading } = await readOnce(options);
    if (realPaths === joinedRealPaths(dirs) && isConsistent(reading)) return tree;
    if (tries === MAX_TRIES) {
      if (previous === undefined) return tree;
      // The directories never settle: the previous tree stays in force until the next read.
      const recheckAt = (options.clock ?? systemClock).monotonic() + RECHECK_MS;
      return keepMemory({ ...previous, recheckAt }, recallMemory(previous));
    }
    await yieldToEventLoop();
  }
}

/** Reads all directories once into a tree. Files may change during the read: `isConsistent` detects that. */
async function readOnce(options: ReadTreeOptions): Promise<{ tree: Tree; reading: Reading }> {
  const reading = beginReading(options);
  const scans = scanAll(reading, listModulesDirs(options));
  const dirScans = scans.map((one) => one.scan);
  const commonFiles = readCommonFiles(reading, dirScans);
  const modules = refuseFlagCollisions(reading, scans, await readModules(reading, scans, commonFiles));
  if (options.previous !== undefined) {
    // Runs in progress may still use the charts of the previous tree; the next read removes those.
    const chartDirs = [...options.previous.modules, ...modules].map((module) => module.chartDir);
    await options.archives.removeUnused(new Set(chartDirs));
  }
  const global = await readGlobal(reading, options.globalHooksDir);
  const recheckAt = reading.missing.nextCheckAt;
  const tree: Tree = keepMemory(
    {
      modules,
      globalValues: mergeGlobals(commonFiles),
      findGlobalPosition: (pointer) => findFirstPosition(commonFiles, pointer),
      globalSchemas: global.schemas,
      globalHookFiles: global.hookFiles,
      notExecutableWarnings: global.notExecutableWarnings,
      problems: reading.problems,
      warnings: reading.warnings,
      purgeBlockers: reading.purgeBlockers,
      refused: reading.refused,
      ...(recheckAt === undefined ? {} : { recheckAt }),
    },
    reading.after,
  );
  return { tree, reading };
}

/** All modules directories. That of modules from registries is the last, so that any other directory may override it. */
function listModulesDirs({ modulesDirs, registryModules }: ReadTreeOptions): readonly string[] {
  return registryModules?.dir === undefined ? modulesDirs : [...modulesDirs, registryModules.dir];
}

/** The entries of a modules directory, as they are now or as the last read found them. */
interface DirScanResult {
  readonly scan: DirScan;
  /** False if the directory cannot be read now: `scan` is then that of the last read. */
  readonly readable: boolean;
}

/** Scans all modules directories. Throws ProblemError if one cannot be read and there is no earlier read to fall back to. */
function scanAll(reading: Reading, dirs: readonly string[]): DirScanResult[] {
  // All directories are scanned before the read fails, so that the error names every unreadable one.
  const fatal: Problem[] = [];
  const scans = dirs.flatMap((dir) => {
    const scanned = scanOrReport(reading, dir, fatal);
    if (scanned !== undefined) reading.after.scans.set(dir, scanned.scan);
    return scanned === undefined ? [] : [scanned];
  });
  if (fatal.length > 0) throw new ProblemError(...fatal);
  reading.purgeBlockers.push(...(reading.options.registryModules?.purgeBlockers ?? []));
  return scans;
}

/**
 * Scans one modules directory. If it cannot be read, adds a warning and a reason not to purge releases, and returns
 * the last scan; without an earlier read, adds the problem to `fatal`.
 */
function scanOrReport(reading: Reading, dir: string, fatal: Problem[]): DirScanResult | undefined {
  try {
    const { unnumberedOrder, registryModules } = reading.options;
    const mayBeEmpty = dir === registryModules?.dir;
    const scan = scanDir(dir, unnumberedOrder, mayBeEmpty);
    reading.refused.push(...scan.refused);
    reading.warnings.push(...scan.warnings);
    reading.purgeBlockers.push(...scan.purgeBlockers);
    return { scan, readable: true };
  } catch (error) {
    const problem = { ...fileProblem(dir, error), remedy: "create it, or correct --modules-dir" };
    if (reading.options.previous === undefined) fatal.push(problem);
    reportNotRead(reading, problem);
    const scan = reading.before.scans.get(dir);
    return scan === undefined ? undefined : { scan, readable: false };
  }
}

/**
 * Reads the modules of all directories, or with `onlyDir` one of them; of modules with the same name, the first wins. Modules
 * that are missing now keep their last content until a second read confirms the deletion.
 */
async function readModules(
  reading: Reading,
  scans: readonly DirScanResult[],
  files: readonly CommonFile[],
): Promise<Module[]> {
  const { onlyDir } = reading.options;
  const modules = new Map<string, Module>();
  let candidateCount = 0;
  for (const { scan, readable } of scans) {
    for (const candidate of scan.candidates) {
      if (onlyDir !== undefined && candidate.dir !== onlyDir) continue;
      if (++candidateCount % MODULES_PER_SLICE === 0) await yieldToEventLoop();
      const existing = modules.get(candidate.name);
      if (existing === undefined)
        modules.set(candidate.name, await readCandidate(reading, candidate, { files, readable }));
      else reading.warnings.push(`${candidate.dir}: left out, module "${existing.name}" is ${existing.dir}`);
    }
  }
  for (const [name, before] of reading.before.modules) {
    if (modules.has(name)) continue;
    const missingModule = keepUntilConfirmedMissing(reading, before);
    if (missingModule !== undefined) modules.set(name, missingModule);
  }
  return [...modules.values()].sort(byOrder);
}

/** Reads one module. Returns its last content if its directory cannot be read, or if this read is for other modules only. */
async function readCandidate(
  reading: Reading,
  candidate: ModuleDirectory,
  { files, readable }: { files: readonly CommonFile[]; readable: boolean },
): Promise<Module> {
  const remembered = reading.before.modules.get(candidate.name);
  const isSkipped = !readable || reading.options.namesToRead?.has(candidate.name) === false;
  if (isSkipped && remembered !== undefined) return rememberModule(reading, remembered);
  const common = mergeCommonValues(reading, files, camelCase(candidate.name));
  return refreshModule(reading, { ...candidate, common });
}

/**
 * Leaves out and reports modules whose values key is also a flag of another module, such as `foo-enabled` beside `foo`:
 * the key `fooEnabled` in the ConfigMap would mean both.
 */
function refuseFlagCollisions(
  reading: Reading,
  scans: readonly DirScanResult[],
  modules: readonly Module[],
): Module[] {
  // With `onlyDir`, most candidates are not among the modules; they collide all the same.
  const candidates = scans.flatMap(({ scan }) => scan.candidates);
  const names = new Set([...candidates, ...modules].map(({ name }) => name));
  return modules.filter((module) => {
    const other = findFlagCollision(module.name, names);
    if (other === undefined) return true;
    const message = `no module: its values key ${module.valuesKey} is a flag of module "${other}"`;
    const problem = { file: module.dir, message, remedy: "rename one of the two directories" };
    reading.refused.push(problem);
    reportNotRead(reading, problem);
    return false;
  });
}

/** The content of a global hooks directory that does not exist. */
const NO_GLOBAL_HOOKS: GlobalHooks = { hookFiles: [], notExecutableWarnings: [], schemas: {}, paths: [] };

/**
 * Reads hooks and schemas of the global hooks directory. If it is broken, or files are missing and no second read has
 * confirmed the deletion, the content of the last read stays in force.
 */
async function readGlobal(reading: Reading, dir: string | undefined): Promise<GlobalHooks> {
  const lastGlobal = reading.before.globalHooks;
  const global = dir === undefined ? NO_GLOBAL_HOOKS : await readGlobalDir(reading, dir);
  const missing = without(lastGlobal?.paths ?? [], global.paths);
  const mayReappear = !confirmMissing(reading, missing);
  const inForce = mayReappear && lastGlobal !== undefined ? lastGlobal : global;
  reading.after.globalHooks = inForce;
  return inForce;
}

/**
 * Reads the global hooks directory: hooks are in its `hooks/` if that exists, else in the directory itself. A missing
 * directory is a warning only. Returns what the last read found if it cannot be read, with the error in the problems.
 */
async function readGlobalDir(reading: Reading, dir: string): Promise<GlobalHooks> {
  if (!existsSync(dir)) {
    reading.warnings.push(`${dir}: there is no such directory, so there are no global hooks`);
    return NO_GLOBAL_HOOKS;
  }
  const root = existsSync(join(dir, "hooks")) ? join(dir, "hooks") : dir;
  try {
    const misfits = findMisfits(dir, GLOBAL_KINDS);
    if (misfits.length > 0) throw new ProblemError(...misfits);
    const hooks = listHooks(root);
    const schemaFiles = findFiles(dir, Object.values(SCHEMA_FILES));
    const schemas = readSchemas(reading, dir, schemaFiles);
    await loadRuleLanguage(schemas);
    return {
      hookFiles: toHookFiles(root, hooks.files),
      notExecutableWarnings: warnOfUnusableHooks(hooks),
      schemas: validSchemas(reading, schemas),
      paths: [...hooks.files.values(), ...schemaFiles.values()].map((file) => file.path),
    };
  } catch (error) {
    reading.problems.push(...toProblems(error, dir));
    return reading.before.globalHooks ?? NO_GLOBAL_HOOKS;
  }
}

/** Returns the global schemas if they compile. Otherwise adds a problem and returns those of the last read. */
function validSchemas(reading: Reading, files: SchemaFiles): SchemaFiles {
  const compiled = collect(reading.problems, () => compileSchemas(files));
  return compiled === undefined ? (reading.before.globalHooks?.schemas ?? {}) : files;
}

/** The real paths of `dirs` as one text, to compare. */
function joinedRealPaths(dirs: readonly string[]): string {
  return dirs.map((dir) => attempt(() => realpathSync(dir)) ?? "").join("\n");
}

/** Whether no module that was read has changed since its listing; otherwise the tree could mix files of two versions. */
function isConsistent({ before, after }: Reading): boolean {
  const isKept = (each: RememberedModule): boolean => each === before.modules.get(each.module.name);
  return [...after.modules.values()].every((each) => isKept(each) || isListingCurrent(each));
}
