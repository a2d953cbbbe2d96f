/** The environment that all runs of hooks, scripts and helm share. The shell library has functions for hooks in bash. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The defined variables of an environment, and SHELL_LIB_PATH, by which shell hooks load the library, unless it is set. */
export function buildHookEnvironment(environment: NodeJS.ProcessEnv): Record<string, string> {
  const entries = Object.entries(environment);
  const defined = Object.fromEntries(
    entries.filter((each): each is [string, string] => each[1] !== undefined),
  );
  const library = findShellLibrary();
  return library === undefined ? defined : { SHELL_LIB_PATH: library, ...defined };
}

/** Path of the shell library, beside the bundle or in the source tree. */
function findShellLibrary(): string | undefined {
  return ["./shell/shell_lib.sh", "../../shell/shell_lib.sh"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
}
