/** What offline sub-commands need around them: directories and modules that are named, log, children, clean-up. */

import { existsSync, readdirSync, statSync, writeSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

import { childEnvironment, type Environment, type Settings } from "../config.ts";
import { FilterEngine } from "../filter/index.ts";
import { hookEnvironment, type AskOptions } from "../hooks/index.ts";
import { createLogger, oneLine, Scope, systemClock, type Logger } from "../lib/index.ts";
import { ProblemError, type Tree } from "../model/index.ts";
import { endChildren } from "../process/index.ts";
import {
  ADDON_FILE,
  ChartArchives,
  findHookFiles,
  MODULE_FILE,
  readTree,
  splitEntryName,
} from "../modules/index.ts";

const GRACE_MS = 3000;

/** What a sub-command printed, and its exit code. */
export interface Printed {
  readonly text: string;
  readonly code: number;
}

/** Does the work of a sub-command; then ends its children and releases what it acquired. */
export async function scoped<T>(work: (scope: Scope) => Promise<T>): Promise<T> {
  const scope = new Scope();
  try {
    return await work(scope);
  } finally {
    await endChildren(GRACE_MS);
    await scope.close();
  }
}

/** The text of a file that was given. Throws ProblemError. */
export async function readGiven(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new ProblemError([{ file, message: `cannot be read: ${oneLine(error)}` }]);
  }
}

/** Log lines of offline sub-commands go to stderr: stdout is for their results. */
export function stderrLogger(settings: Settings): Logger {
  const write = (line: string): void => void writeSync(2, line);
  return createLogger({ level: settings.logLevel, type: "text", noTime: true, clock: systemClock, write });
}

/** Where charts that are archives are unpacked while a sub-command runs. */
export function archivesIn(settings: Settings, scope: Scope): ChartArchives {
  return scope.own(new ChartArchives(settings.tmpDir));
}

/** A kubeconfig that names no cluster. */
const NO_CLUSTER = "/dev/null";
/** By these a client finds the cluster that its Pod runs in. */
const IN_CLUSTER = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];

/** The environment of hooks that are only asked: one that ignores `--config` and does its work reaches no cluster. */
function withoutCluster(environment: Environment): Environment {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !IN_CLUSTER.includes(name)));
}

/** Everything that is needed to ask hooks for their configuration without a cluster, checks included. */
export function askOptions(settings: Settings, environment: Environment, scope: Scope): AskOptions {
  const logger = stderrLogger(settings);
  const filters = scope.own(
    new FilterEngine({ jqBin: settings.jqBin, env: environment, clock: systemClock, logger }),
  );
  return {
    env: hookEnvironment(childEnvironment(withoutCluster(environment), settings, NO_CLUSTER)),
    workingDir: settings.workingDir,
    hookWorkingDir: settings.hookWorkingDir,
    logger,
    checkFilter: (filter) => filters.compile(filter),
  };
}

/** The directories of modules for sub-commands that write into them: those that are set, else `modules`. */
export function modulesDirsOf({ modulesDir = "modules" }: Settings): readonly [string, ...string[]] {
  const [first = "modules", ...rest] = modulesDir.split(":").filter(Boolean);
  return [first, ...rest];
}

/** The directory of a module, in the first directory that has one of its name. Throws ProblemError. */
export function findModule(settings: Settings, wanted: string): { dir: string; name: string } {
  const dirs = modulesDirsOf(settings);
  for (const dir of dirs.filter((each) => existsSync(each)))
    for (const entry of readdirSync(dir)) {
      const { name } = splitEntryName(entry, 0);
      if (entry === wanted || name === wanted) return { dir: join(dir, entry), name };
    }
  const message = `there is no module ${wanted}`;
  throw new ProblemError([{ file: dirs.join(", "), message, remedy: "name one, or set --modules-dir" }]);
}

/** One directory that `lint` was given. */
export interface LintDir {
  readonly dir: string;
  readonly tree: Tree;
  /** Whose layout is to be checked; undefined for global hooks. */
  readonly modulesDir: string | undefined;
  /** Only what is below this path counts: a single module was named. */
  readonly only: string | undefined;
}

const CHART_PARTS = ["Chart.yaml", "templates", ADDON_FILE, MODULE_FILE];
const PARTS = ["hooks", "values.yaml", "enabled", "crds"];

/**
 * Reads a modules directory, one module (`NUMBER-name`, or anything with a chart), or a directory of global hooks
 * (with `hooks/` and nothing of a module, or with hooks and no modules). Throws ProblemError when it cannot be read.
 */
export async function readLintDir(given: string, terms: ReadTerms): Promise<LintDir> {
  const dir = resolve(given);
  if (statSync(dir, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new ProblemError([{ file: dir, message: "is no directory" }]);
  if (isModule(dir)) {
    const tree = await read(terms, { modulesDirs: [dirname(dir)], only: dir });
    return { dir, modulesDir: dirname(dir), only: dir, tree };
  }
  if (holdsGlobalHooks(dir))
    return {
      dir,
      modulesDir: undefined,
      only: undefined,
      tree: await read(terms, { modulesDirs: [], globalHooksDir: dir }),
    };
  return { dir, modulesDir: dir, only: undefined, tree: await read(terms, { modulesDirs: [dir] }) };
}

function isModule(dir: string): boolean {
  const numbered = /^\d+-/.test(basename(dir));
  return holds(dir, CHART_PARTS) || (numbered && holds(dir, PARTS));
}

function holdsGlobalHooks(dir: string): boolean {
  if (holds(dir, ["hooks"])) return true;
  const parts = [...CHART_PARTS, ...PARTS, "openapi"];
  const entries = readdirSync(dir).filter((name) => name !== "openapi");
  const holdsModules = entries.some((name) => holds(join(dir, name), parts));
  return !holdsModules && !holds(dir, ["values.yaml"]) && findHookFiles(dir).size > 0;
}

function holds(dir: string, names: readonly string[]): boolean {
  return names.some((name) => existsSync(join(dir, name)));
}

/** How directories are read. */
interface ReadTerms {
  readonly archives: ChartArchives;
  /** `--crd-filters`. */
  readonly crdFilters: string;
  readonly schemaDirs: readonly string[];
}

/** What settings say of how directories are read. */
export function readTermsOf(settings: Settings, scope: Scope): ReadTerms {
  const { crdFilters } = settings;
  const schemaDirs = settings.schemaDirs?.split(":") ?? [];
  return { archives: archivesIn(settings, scope), crdFilters, schemaDirs };
}

function read(
  terms: ReadTerms,
  what: { modulesDirs: readonly string[]; globalHooksDir?: string; only?: string },
): Promise<Tree> {
  return readTree({ ...terms, globalHooksDir: undefined, unnumberedOrder: 1, strict: false, ...what });
}
