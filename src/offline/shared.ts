/** What offline sub-commands share: finding directories and modules, logging, child processes, clean-up. */

import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

import { childEnvironment, type Environment, type Settings } from "../config.ts";
import { FilterEngine } from "../filter/index.ts";
import { hookEnvironment, type HookQueryOptions } from "../hooks/index.ts";
import { createLogger, oneLine, Scope, systemClock, type Logger } from "../lib/index.ts";
import { ProblemError, type Tree } from "../model/index.ts";
import { Children } from "../process/index.ts";
import {
  ADDON_FILE,
  ChartArchives,
  findHookFiles,
  MODULE_FILE,
  readTree,
  splitEntryName,
} from "../modules/index.ts";

const GRACE_MS = 3000;

/** The output of a sub-command, and its exit code. */
export interface CommandResult {
  readonly text: string;
  readonly code: number;
}

/** How to end the sub-commands that run now, innermost last. */
const running = new Set<() => Promise<void>>();

/** A signal ends the child processes, removes temporary files, and then ends the process with the usual exit code. */
const SIGNALS = { SIGTERM: 143, SIGINT: 130 } as const;

function endOnSignal(signal: keyof typeof SIGNALS): void {
  const endings = [...running].toReversed().map((end) => end());
  void Promise.allSettled(endings).then(() => process.exit(SIGNALS[signal]));
}

function listen(how: "on" | "off"): void {
  for (const signal of Object.keys(SIGNALS)) process[how](signal, endOnSignal);
}

/** Runs a sub-command, then ends its child processes and closes its scope; SIGTERM and SIGINT do the same. */
export async function withScope<T>(work: (scope: Scope, children: Children) => Promise<T>): Promise<T> {
  const scope = new Scope();
  const children = new Children();
  const end = async (): Promise<void> => {
    children.startOnlyWhile(() => false);
    await children.end(GRACE_MS);
    await scope.close();
  };
  if (running.size === 0) listen("on");
  running.add(end);
  try {
    return await work(scope, children);
  } finally {
    await end();
    running.delete(end);
    if (running.size === 0) listen("off");
  }
}

/** A new directory beside the files of modules, which is removed with the scope. */
export function draftIn(dir: string, scope: Scope): string {
  const draft = mkdtempSync(join(dir, ".new-"));
  scope.addRelease(() => rmSync(draft, { recursive: true, force: true }));
  return draft;
}

/** Reads a file that the user named. Throws ProblemError. */
export async function readTextFile(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new ProblemError({ file, message: `cannot be read: ${oneLine(error)}` });
  }
}

/** A logger to stderr, because stdout is for results. */
export function stderrLogger(settings: Settings): Logger {
  const write = (line: string): void => void writeSync(2, line);
  return createLogger({ level: settings.logLevel, type: "text", noTime: true, clock: systemClock, write });
}

/** Unpacks chart archives into a directory that lasts as long as the scope. */
export function archivesIn(settings: Settings, scope: Scope): ChartArchives {
  return scope.closeAtEnd(new ChartArchives(settings.tmpDir));
}

/** A kubeconfig without a cluster. */
const NO_CLUSTER = "/dev/null";
/** Variables by which a client in a Pod finds its cluster. */
const IN_CLUSTER = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];

/** An environment in which a hook that ignores `--config` and does its work reaches no cluster. */
function withoutCluster(environment: Environment): Environment {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !IN_CLUSTER.includes(name)));
}

/** The options for loading and checking configurations of hooks without a cluster. */
export function hookLoadOptions(
  settings: Settings,
  environment: Environment,
  { scope, children }: { readonly scope: Scope; readonly children: Children },
): HookQueryOptions {
  const logger = stderrLogger(settings);
  const filters = scope.closeAtEnd(
    new FilterEngine({ children, jqBin: settings.jqBin, env: environment, clock: systemClock, logger }),
  );
  return {
    children,
    env: hookEnvironment(childEnvironment(withoutCluster(environment), settings, NO_CLUSTER)),
    workingDir: settings.workingDir,
    hookWorkingDir: settings.hookWorkingDir,
    logger,
    checkFilter: (filter) => filters.compile(filter),
  };
}

/** The modules directories into which sub-commands write; default `modules`. */
export function modulesDirsOf({ modulesDir = "modules" }: Settings): readonly [string, ...string[]] {
  const [first = "modules", ...rest] = modulesDir.split(":").filter(Boolean);
  return [first, ...rest];
}

/** Finds a module by its name or directory name, in the first modules directory that contains it. Throws ProblemError. */
export function moduleNamed(settings: Settings, wanted: string): { dir: string; name: string } {
  const dirs = modulesDirsOf(settings);
  for (const dir of dirs.filter((each) => existsSync(each)))
    for (const entry of readdirSync(dir)) {
      const { name } = splitEntryName(entry, 0);
      if (entry === wanted || name === wanted) return { dir: join(dir, entry), name };
    }
  const message = `module ${wanted} does not exist`;
  throw new ProblemError({
    file: dirs.join(", "),
    message,
    remedy: "correct the name, or set --modules-dir",
  });
}

/** A directory for `lint`. */
export interface LintDir {
  readonly dir: string;
  readonly tree: Tree;
  /** The directory whose layout is checked; undefined for global hooks. */
  readonly modulesDir: string | undefined;
  /** Only findings below this path are reported, because the user named a single module. */
  readonly only: string | undefined;
}

const CHART_PARTS = ["Chart.yaml", "templates", ADDON_FILE, MODULE_FILE];
const MODULE_PARTS = ["hooks", "values.yaml", "enabled", "crds"];

/**
 * Reads a modules directory, one module (`NUMBER-name`, or anything with a chart), or a directory of global hooks
 * (with `hooks/` and nothing of a module, or with hooks and no modules). Throws ProblemError when it cannot be read.
 */
export async function readLintDir(given: string, terms: ReadOptions): Promise<LintDir> {
  const dir = resolve(given);
  if (statSync(dir, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new ProblemError({ file: dir, message: "is not a directory" });
  if (isModule(dir)) {
    const tree = await readTreeOf(terms, { modulesDirs: [dirname(dir)], only: dir });
    return { dir, modulesDir: dirname(dir), only: dir, tree };
  }
  if (isGlobalHooksDir(dir))
    return {
      dir,
      modulesDir: undefined,
      only: undefined,
      tree: await readTreeOf(terms, { modulesDirs: [], globalHooksDir: dir }),
    };
  return { dir, modulesDir: dir, only: undefined, tree: await readTreeOf(terms, { modulesDirs: [dir] }) };
}

/**
 * Reads the owner of a hook: the module in `dir`, or the schemas of a directory of global hooks. Throws ProblemError for
 * errors that stop a module from running.
 */
export async function readHookOwner(dir: string, isOfModule: boolean, terms: ReadOptions): Promise<Tree> {
  if (!isOfModule)
    return readTreeOf(terms, {
      modulesDirs: [],
      ...(existsSync(join(dir, "openapi")) && { globalHooksDir: dir }),
    });
  const tree = await readTreeOf(terms, { modulesDirs: [dirname(dir)], only: dir });
  const [module] = tree.modules;
  const problems = module === undefined ? tree.refused : module.problem && [module.problem];
  if (problems !== undefined && problems.length > 0) throw new ProblemError(...problems);
  return tree;
}

/** Whether a directory is one module: it has a chart, or a number in its name and other files of a module. */
function isModule(dir: string): boolean {
  const numbered = /^\d+-/.test(basename(dir));
  return containsAny(dir, CHART_PARTS) || (numbered && containsAny(dir, MODULE_PARTS));
}

/** Whether a directory contains global hooks: it has `hooks/`, or hooks and nothing of modules. */
function isGlobalHooksDir(dir: string): boolean {
  if (containsAny(dir, ["hooks"])) return true;
  const parts = [...CHART_PARTS, ...MODULE_PARTS, "openapi"];
  const entries = readdirSync(dir).filter((name) => name !== "openapi");
  const holdsModules = entries.some((name) => containsAny(join(dir, name), parts));
  return !holdsModules && !containsAny(dir, ["values.yaml"]) && findHookFiles(dir).size > 0;
}

function containsAny(dir: string, names: readonly string[]): boolean {
  return names.some((name) => existsSync(join(dir, name)));
}

interface ReadOptions {
  readonly archives: ChartArchives;
  readonly crdFilters: string;
  readonly schemaDirs: readonly string[];
  readonly namespaceTemplate: string | undefined;
}

export function readOptions(settings: Settings, scope: Scope): ReadOptions {
  const { crdFilters } = settings;
  const schemaDirs = settings.schemaDirs?.split(":") ?? [];
  const { moduleNamespaceTemplate: namespaceTemplate } = settings;
  return { archives: archivesIn(settings, scope), crdFilters, schemaDirs, namespaceTemplate };
}

function readTreeOf(
  terms: ReadOptions,
  what: { modulesDirs: readonly string[]; globalHooksDir?: string; only?: string },
): Promise<Tree> {
  return readTree({ ...terms, globalHooksDir: undefined, unnumberedOrder: 1, strict: false, ...what });
}
