/** What hooks, scripts and helm find in their environment beside what each run adds. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The environment of children; SHELL_LIB_PATH names the shell library unless it is set already. */
export function hookEnvironment(environment: NodeJS.ProcessEnv): Record<string, string> {
  const entries = Object.entries(environment);
  const defined = Object.fromEntries(
    entries.filter((each): each is [string, string] => each[1] !== undefined),
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
