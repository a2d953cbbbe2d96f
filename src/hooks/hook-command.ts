/** How a hook file is started, and the environment of hooks and other children. */

import { existsSync } from "node:fs";
import { access, constants } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import type { HookFile } from "../model/index.ts";

interface HookCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * The command of a hook file; its own directory is the working directory in both phases. WORKING_DIR is the configured
 * directory, else the hooks directory that the hook was found in. Hooks that end in `.py` use the virtual environment
 * `venv` of their hooks directory where there is one.
 */
export async function commandOf(
  { path, root }: HookFile,
  args: readonly string[],
  settings: { readonly env: HookCommand["env"]; readonly workingDir: string | undefined },
): Promise<HookCommand> {
  const env = { ...settings.env, WORKING_DIR: settings.workingDir ?? root };
  const python = path.endsWith(".py") ? await venvPython(root) : undefined;
  const program = python === undefined ? { file: path, args } : { file: python, args: [path, ...args] };
  return { ...program, cwd: dirname(path), env };
}

async function venvPython(root: string): Promise<string | undefined> {
  const python = join(root, "venv", "bin", "python3");
  return access(python, constants.X_OK).then(
    () => python,
    () => undefined,
  );
}

/** The environment of children; SHELL_LIB_PATH names the shell library unless it is set already. */
export function hookEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const defined = Object.fromEntries(
    Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  const library = shellLibrary();
  return library === undefined ? defined : { SHELL_LIB_PATH: library, ...defined };
}

/** Beside the bundle, or in the source tree. */
function shellLibrary(): string | undefined {
  return ["./shell/shell_lib.sh", "../../shell/shell_lib.sh"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
}
