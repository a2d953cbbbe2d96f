/** Finds the directories of modules and global hooks (docs/reference/settings.md, "Settings"). */

import { existsSync } from "node:fs";
import { join } from "node:path";

/** The settings that name directories; undefined where the user sets none. */
interface DirectorySettings {
  readonly workingDir?: string | undefined;
  /** Several directories, separated by colons. */
  readonly modulesDir?: string | undefined;
  readonly globalHooksDir?: string | undefined;
}

/**
 * Returns the modules directories and the global hooks directory: those that the settings name, else `modules` and
 * `global-hooks` below the working directory. Without a working directory, that is `/`, or `/addons` if `/` has
 * neither directory.
 */
export function resolveDirectories(
  settings: DirectorySettings,
  exists: (path: string) => boolean = existsSync,
): { readonly modulesDirs: readonly string[]; readonly globalHooksDir: string } {
  const base = settings.workingDir ?? (["/modules", "/global-hooks"].some(exists) ? "/" : "/addons");
  return {
    modulesDirs: (settings.modulesDir ?? join(base, "modules")).split(":").filter(Boolean),
    globalHooksDir: settings.globalHooksDir ?? join(base, "global-hooks"),
  };
}
