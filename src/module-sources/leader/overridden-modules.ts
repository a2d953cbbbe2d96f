/** Modules that a source names, but another source or directory provides. */

import type { Shared } from "../context.ts";
import type { Source } from "../source-list.ts";
import type { ModuleError } from "./entry/findings.ts";

/** Reports the origin of each such module. */
export function overridden({ sources, options }: Shared, { name, spec }: Source): [string, ModuleError][] {
  return [...(spec?.modules.keys() ?? [])].flatMap((module): [string, ModuleError][] => {
    const other = sources().requested.get(module)?.source;
    const isFromDirectory = options.state.tree.modules.some(
      (each) => each.name === module && each.origin === undefined,
    );
    const why = isFromDirectory
      ? "a modules directory has a module of this name, which comes first"
      : other !== undefined && other !== name && `the older ModuleSource ${other} names it, too`;
    return why ? [[module, { reason: "Overridden", message: why }]] : [];
  });
}
