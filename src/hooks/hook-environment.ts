/** The environment of hooks and other children. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

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
