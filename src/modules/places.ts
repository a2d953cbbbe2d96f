/** Finds the directories of modules and global hooks (docs/reference/settings.md, "Settings"). */

import { existsSync } from "node:fs";
import { join } from "node:path";

interface DirectorySettings {
  readonly workingDir?: string | undefined;
  /** Several directories, separated by colons. */
  readonly modulesDir?: string | undefined;
  readonly globalHooksDir?: string | undefined;
}

/**
 * The directories that the settings name; else those below the working directory; else `/modules` and
 * `/global-hooks`, or, where neither exists, those below `/addons`.
 */
export function placesOf(
  settings: DirectorySettings,
  exists: (path: string) => boolean = existsSync,
): { readonly modulesDirs: readonly string[]; readonly globalHooksDir: string } {
  const base = settings.workingDir ?? (["/modules", "/global-hooks"].some(exists) ? "/" : "/addons");
  return {
    modulesDirs: (settings.modulesDir ?? join(base, "modules")).split(":").filter(Boolean),
    globalHooksDir: settings.globalHooksDir ?? join(base, "global-hooks"),
  };
}
