/** The command of a hook or script: program, arguments, working directory and environment. */

import { access, constants } from "node:fs/promises";
import { dirname, join } from "node:path";

import type { HookFile } from "../model/index.ts";
import type { Children, RunRequest } from "../process/index.ts";
import type { ModuleActor } from "./actor.ts";

/** Where hooks and scripts are started, and with which environment. */
export interface StartSettings {
  readonly children: Pick<Children, "run">;
  /** The operator's environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string | undefined;
  /** `--hook-working-dir`: the operator's working directory (the default), or the file's own directory. */
  readonly hookWorkingDir?: "operator" | "own" | undefined;
  /** Creates the files that `env` names, before each start. */
  readonly prepare?: (() => Promise<void>) | undefined;
  /** The identity under which hooks run; undefined = the operator's. */
  readonly actor?: ModuleActor | undefined;
}

/**
 * Working directory and environment of a hook or script, in every phase. Sets WORKING_DIR, if the operator's own environment
 * `env` does not, to the configured directory, else to `root`: the hooks directory of a hook, the modules directory of a script.
 */
export function buildStartOptions(
  path: string,
  root: string,
  { env, workingDir, hookWorkingDir }: StartSettings,
): Pick<RunRequest, "cwd" | "env"> {
  const cwd = hookWorkingDir === "own" ? dirname(path) : process.cwd();
  return { cwd, env: { WORKING_DIR: workingDir ?? root, ...env } };
}

/** The command of a hook file. Hooks that end in `.py` use the virtual environment `venv` of their hooks directory, if it exists. */
export async function buildCommand(
  { path, root }: HookFile,
  args: readonly string[],
  settings: StartSettings,
): Promise<Pick<RunRequest, "file" | "args" | "cwd" | "env">> {
  const python = path.endsWith(".py") ? await findVenvPython(root) : undefined;
  const program = python === undefined ? { file: path, args } : { file: python, args: [path, ...args] };
  return { ...program, ...buildStartOptions(path, root, settings) };
}

/** Path of Python in the virtual environment of a hooks directory; undefined if it does not exist. */
async function findVenvPython(root: string): Promise<string | undefined> {
  const python = join(root, "venv", "bin", "python3");
  return access(python, constants.X_OK)
    .then(() => python)
    .catch(() => undefined);
}
