/** How a hook file is started. */

import { access, constants } from "node:fs/promises";
import { dirname, join } from "node:path";

import type { HookFile } from "../model/index.ts";

/** The command of a hook file; its own directory is the working directory in both phases. */
export interface HookCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
}

/** Hooks that end in `.py` use the virtual environment `venv` of their hooks directory where there is one. */
export async function commandOf(hook: HookFile, args: readonly string[]): Promise<HookCommand> {
  const cwd = dirname(hook.path);
  const python = hook.path.endsWith(".py") ? await venvPython(hook.root) : undefined;
  return python === undefined
    ? { file: hook.path, args, cwd }
    : { file: python, args: [hook.path, ...args], cwd };
}

async function venvPython(root: string): Promise<string | undefined> {
  const python = join(root, "venv", "bin", "python3");
  return access(python, constants.X_OK).then(
    () => python,
    () => undefined,
  );
}

/** Value of WORKING_DIR: the configured directory, else the hooks directory the hook was found in. */
export function workingDirOf(hook: HookFile, workingDir: string | undefined): string {
  return workingDir ?? hook.root;
}
