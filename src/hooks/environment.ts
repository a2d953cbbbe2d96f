import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The environment of children; hooks find the shell library in SHELL_LIB_PATH unless somebody set it. */
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
