/** What a check of a ModuleSource finds about its modules. */

import type { UpdateWait } from "../../../model/index.ts";
import type { SourcesContext } from "../../context.ts";
import type { Source } from "../../source-list.ts";
import type { ResolvedCandidate } from "../../types.ts";

/** Why a module does not have the content that its source requires. */
export interface ModuleError {
  readonly reason: "NotVerified" | "Blocked" | "Overridden" | "CheckFailed" | "Withdrawn";
  /** One line, without credentials. */
  readonly message: string;
}

/** Newer content that is not used yet, because of the update policy. */
export interface PendingUpdate extends ResolvedCandidate {
  /** When it was first seen, in milliseconds since the epoch. */
  readonly since: number;
  /** When it may be used, in milliseconds since the epoch; undefined = when a user approves it. */
  readonly until: number | undefined;
  readonly waitsFor: UpdateWait;
  readonly reason: string;
}

/** What a check of a source found, by module. */
export interface CheckFindings {
  readonly errors: ReadonlyMap<string, ModuleError>;
  readonly pendingUpdates: ReadonlyMap<string, PendingUpdate>;
}

/** Reasons that need a user's action: a retry does not help. */
export const REASONS_FOR_USER_ACTION: ReadonlySet<ModuleError["reason"]> = new Set([
  "NotVerified",
  "Blocked",
]);

/**
 * Finds the modules that a source names, but that a modules directory or an older source provides. The status of the source
 * reports them, because their entry in the source has no effect.
 */
export function findOverriddenModules(
  { currentSources, options }: SourcesContext,
  { name, spec }: Source,
): [module: string, error: ModuleError][] {
  const errors: [string, ModuleError][] = [];
  for (const module of spec?.modules.keys() ?? []) {
    const provider = currentSources().requested.get(module)?.source;
    const isInDirectory = options.state.tree.modules.some(
      (each) => each.name === module && each.origin === undefined,
    );
    if (isInDirectory) {
      const message = "a modules directory has a module of this name, which comes first";
      errors.push([module, { reason: "Overridden", message }]);
    } else if (provider !== undefined && provider !== name) {
      const message = `the older ModuleSource ${provider} names it, too`;
      errors.push([module, { reason: "Overridden", message }]);
    }
  }
  return errors;
}
