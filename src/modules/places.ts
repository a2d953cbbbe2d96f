import { existsSync } from "node:fs";
import { join } from "node:path";

/** The settings that name directories. */
interface DirectorySettings {
  readonly workingDir?: string | undefined;
  /** Several with colons between them. */
  readonly modulesDir?: string | undefined;
  readonly globalHooksDir?: string | undefined;
}

/** Where modules and global hooks are looked for. */
interface Places {
  readonly modulesDirs: readonly string[];
  readonly globalHooksDir: string;
}

const FALLBACK = "/addons";

/**
 * Directories by the settings: named ones, then `<working dir>/…`, then `/modules` and `/global-hooks`; where neither
 * of these exists, below `/addons`.
 */
export function placesOf(
  settings: DirectorySettings,
  exists: (path: string) => boolean = existsSync,
): Places {
  const base = settings.workingDir ?? (["/modules", "/global-hooks"].some(exists) ? "/" : FALLBACK);
  return {
    modulesDirs: (settings.modulesDir ?? join(base, "modules")).split(":").filter(Boolean),
    globalHooksDir: settings.globalHooksDir ?? join(base, "global-hooks"),
  };
}
