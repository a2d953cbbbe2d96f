/** What offline sub-commands share: finding directories and modules, logging, child processes, clean-up. */

import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

import { buildChildEnvironment, type Environment, type Settings } from "../../config/settings/index.ts";
import { FilterEngine } from "../../hooks/filter/index.ts";
import { buildHookEnvironment, type HookQueryOptions } from "../../hooks/index.ts";
import {
  attempt,
  createLogger,
  decodeText,
  EncodingError,
  oneLine,
  Scope,
  systemClock,
  type Logger,
} from "../../base/index.ts";
import { ProblemError, type Tree } from "../../base/model/index.ts";
import { Children } from "../../base/process/index.ts";
import {
  ADDON_FILE,
  ChartArchives,
  encodingProblem,
  listHooks,
  MODULE_FILE,
  readTree,
  splitEntryName,
} from "../../modules/index.ts";

/** How long child processes may take to end before they are killed. */
const GRACE_MS = 3000;

/** The output of a sub-command, and its exit code. */
export interface CommandResult {
  readonly text: string;
  readonly code: number;
}

/** The clean-up functions of the sub-commands that are running; that of an inner one comes after that of its caller. */
const pendingCleanups = new Set<() => Promise<void>>();

/** The signals that end a sub-command, and the usual exit codes for them. */
const SIGNAL_EXIT_CODES = { SIGTERM: 143, SIGINT: 130 } as const;

/** Handles a signal: cleans up after all running sub-commands, of which one may run another, innermost first; then exits. */
function cleanUpAndExit(signal: keyof typeof SIGNAL_EXIT_CODES): void {
  const cleanups = [...pendingCleanups].toReversed().map((cleanUp) => cleanUp());
  void Promise.allSettled(cleanups).then(() => process.exit(SIGNAL_EXIT_CODES[signal]));
}

/** Installs (`on`) or removes (`off`) the signal handlers. */
function switchSignalHandlers(method: "on" | "off"): void {
  for (const signal of Object.keys(SIGNAL_EXIT_CODES)) process[method](signal, cleanUpAndExit);
}

/** What a running sub-command works with. */
export interface OfflineTools {
  readonly settings: Settings;
  readonly env: Environment;
  /** Closed at the end of the sub-command. */
  readonly scope: Scope;
  readonly children: Children;
  /** Unpacks chart archives. */
  readonly archives: ChartArchives;
}

/**
 * Runs a sub-command, then ends its child processes and closes its scope; SIGTERM and SIGINT do the same. A sub-command may
 * run within another, so only the outermost one installs and removes the signal handlers.
 */
export async function withTools<T>(
  settings: Settings,
  env: Environment,
  work: (tools: OfflineTools) => Promise<T>,
): Promise<T> {
  const scope = new Scope();
  const children = new Children();
  const archives = scope.closeAtEnd(new ChartArchives(settings.tmpDir));
  const cleanUp = async (): Promise<void> => {
    children.startOnlyWhile(() => false);
    await children.endAll(GRACE_MS);
    await scope.close();
  };
  if (pendingCleanups.size === 0) switchSignalHandlers("on");
  pendingCleanups.add(cleanUp);
  try {
    return await work({ settings, env, scope, children, archives });
  } finally {
    await cleanUp();
    pendingCleanups.delete(cleanUp);
    if (pendingCleanups.size === 0) switchSignalHandlers("off");
  }
}

/** Creates a temporary directory inside `dir`, from which files move by an atomic rename. `scope` removes it at its end. */
export function createDraftDir(dir: string, scope: Scope): string {
  const draft = mkdtempSync(join(dir, ".new-"));
  scope.addRelease(() => rmSync(draft, { recursive: true, force: true }));
  return draft;
}

/** Reads a file that the user named. Throws ProblemError. */
export async function readTextFile(file: string): Promise<string> {
  try {
    return decodeText(await readFile(file));
  } catch (error) {
    if (error instanceof EncodingError) throw new ProblemError(encodingProblem(file, error));
    throw new ProblemError({ file, message: `cannot be read: ${oneLine(error)}` });
  }
}

/** A logger to stderr, because stdout is for results. */
export function stderrLogger(settings: Settings): Logger {
  const write = (line: string): void => void writeSync(2, line);
  return createLogger({ level: settings.logLevel, type: "text", noTime: true, clock: systemClock, write });
}

/** An empty kubeconfig, for processes that must not reach a cluster. */
const NO_CLUSTER = "/dev/null";
/** Variables by which a client in a Pod finds its cluster. */
const IN_CLUSTER_VARIABLES = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];

/** The environment of hooks, from which they reach no cluster: `kubectl` in a hook would change the cluster of the user's shell. */
export function buildOfflineHookEnvironment({ settings, env }: OfflineTools): Record<string, string> {
  const entries = Object.entries(env).filter(([name]) => !IN_CLUSTER_VARIABLES.includes(name));
  return buildHookEnvironment(buildChildEnvironment(Object.fromEntries(entries), settings, NO_CLUSTER));
}

/** The options for loading and checking configurations of hooks without a cluster. */
export function hookLoadOptions(tools: OfflineTools): HookQueryOptions {
  const { settings, env, scope, children } = tools;
  const logger = stderrLogger(settings);
  const filters = scope.closeAtEnd(
    new FilterEngine({ children, jqBin: settings.jqBin, env, clock: systemClock, logger }),
  );
  return {
    children,
    env: buildOfflineHookEnvironment(tools),
    workingDir: settings.workingDir,
    hookWorkingDir: settings.hookWorkingDir,
    logger,
    checkFilter: (filter) => filters.compile(filter),
  };
}

/** The directories of `--modules-dir`; default `modules`. Sub-commands write into the first one. */
export function listModulesDirs({ modulesDir = "modules" }: Settings): readonly [string, ...string[]] {
  const [first = "modules", ...rest] = modulesDir.split(":").filter(Boolean);
  return [first, ...rest];
}

/** Finds a module by its name or directory name, in the first modules directory that contains it. Throws ProblemError. */
export function findModuleDir(settings: Settings, wanted: string): { dir: string; name: string } {
  const dirs = listModulesDirs(settings);
  for (const dir of dirs.filter((each) => existsSync(each))) {
    for (const entry of readdirSync(dir)) {
      const { name } = splitEntryName(entry, 0);
      if (entry === wanted || name === wanted) return { dir: join(dir, entry), name };
    }
  }
  const remedy = "correct the name, or set --modules-dir";
  throw new ProblemError({ file: dirs.join(", "), message: `module ${wanted} does not exist`, remedy });
}

/** A directory for `lint`. */
export interface LintDir {
  readonly dir: string;
  readonly tree: Tree;
  /** The directory whose layout is checked; undefined for global hooks. */
  readonly modulesDir: string | undefined;
  /** Only findings below this path are reported, because the user named a single module. */
  readonly onlyModuleDir: string | undefined;
}

/** Files that only a module with a chart has, and files by which a directory with a number in its name counts as a module. */
const CHART_PARTS = ["Chart.yaml", "templates", ADDON_FILE, MODULE_FILE];
const MODULE_PARTS = ["hooks", "values.yaml", "enabled", "crds"];

/**
 * Reads a modules directory, one module (`NUMBER-name`, or anything with a chart), or a directory of global hooks
 * (with `hooks/` and nothing of a module, or with hooks and no modules). Throws ProblemError when it cannot be read.
 */
export async function readLintDir(path: string, tools: OfflineTools): Promise<LintDir> {
  const dir = resolve(path);
  // It throws for a link that leads to itself, for example.
  if (attempt(() => statSync(dir))?.isDirectory() !== true)
    throw new ProblemError({ file: dir, message: "is not a directory" });
  if (isModule(dir)) {
    const tree = await readTreeWith(tools, { modulesDirs: [dirname(dir)], onlyDir: dir });
    return { dir, modulesDir: dirname(dir), onlyModuleDir: dir, tree };
  }
  if (isGlobalHooksDir(dir)) {
    const tree = await readTreeWith(tools, { modulesDirs: [], globalHooksDir: dir });
    return { dir, modulesDir: undefined, onlyModuleDir: undefined, tree };
  }
  const tree = await readTreeWith(tools, { modulesDirs: [dir] });
  return { dir, modulesDir: dir, onlyModuleDir: undefined, tree };
}

/**
 * Reads the owner of a hook, whose values the hook gets: the module in `dir`, or the schemas of a directory of global hooks,
 * which may have none. Throws ProblemError for errors that stop a module from running.
 */
export async function readHookOwner(dir: string, isOfModule: boolean, tools: OfflineTools): Promise<Tree> {
  if (!isOfModule)
    return readTreeWith(tools, {
      modulesDirs: [],
      ...(existsSync(join(dir, "openapi")) && { globalHooksDir: dir }),
    });
  const tree = await readTreeWith(tools, { modulesDirs: [dirname(dir)], onlyDir: dir });
  const [module] = tree.modules;
  // A directory whose name is refused is no module.
  const problems = module === undefined ? tree.refused : module.problem && [module.problem];
  if (problems !== undefined && problems.length > 0) throw new ProblemError(...problems);
  return tree;
}

/** Whether a directory is one module: it has a chart, or a number in its name and other files of a module. */
function isModule(dir: string): boolean {
  const hasNumber = /^\d+-/.test(basename(dir));
  return containsAny(dir, CHART_PARTS) || (hasNumber && containsAny(dir, MODULE_PARTS));
}

/** Whether a directory, which is no module, contains global hooks: it has `hooks/`, or hooks and nothing of modules. */
function isGlobalHooksDir(dir: string): boolean {
  if (containsAny(dir, ["hooks"])) return true;
  const moduleParts = [...CHART_PARTS, ...MODULE_PARTS, "openapi"];
  // `openapi/` contains the schemas of global values.
  const entries = readdirSync(dir).filter((name) => name !== "openapi");
  const containsModules = entries.some((name) => containsAny(join(dir, name), moduleParts));
  return !containsModules && !containsAny(dir, ["values.yaml"]) && listHooks(dir).files.size > 0;
}

/** Whether a directory contains a file or directory with one of these names. */
function containsAny(dir: string, names: readonly string[]): boolean {
  return names.some((name) => existsSync(join(dir, name)));
}

/** Reads a tree of modules and global hooks from these directories. */
function readTreeWith(
  { settings, archives }: OfflineTools,
  dirs: { modulesDirs: readonly string[]; globalHooksDir?: string; onlyDir?: string },
): Promise<Tree> {
  const { crdFilters, moduleNamespaceTemplate: namespaceTemplate } = settings;
  const schemaDirs = settings.schemaDirs?.split(":") ?? [];
  const options = { archives, crdFilters, namespaceTemplate, schemaDirs, unnumberedOrder: 1, strict: false };
  return readTree({ ...options, globalHooksDir: undefined, ...dirs });
}
