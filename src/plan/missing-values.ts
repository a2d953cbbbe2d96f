/** What follows from values in Secrets and ConfigMaps that are not there (docs/reference/values.md, "Values from Secrets"). */

import type { Cause } from "../model/index.ts";
import type { ModuleView, View } from "../state/index.ts";

/** A Secret or ConfigMap for which a module waits. */
export interface MissingValues {
  readonly name: string;
  readonly reason: "ValuesMissing";
  readonly message: string;
  /** A person must create it. */
  readonly isLost: true;
}

/** The Secrets and ConfigMaps for which a module waits. */
export function missingValues({
  missingValues: missing,
}: Pick<ModuleView, "missingValues">): MissingValues[] {
  return missing.map((text) => {
    // The text is the title of the object, then what is wrong with it.
    const [name = "", message = ""] = text.split(", which ");
    return { name, reason: "ValuesMissing", message, isLost: true };
  });
}

/** A converge for what was missing: values of a module whose `enabled` script was not run, files, modules, the ConfigMap. */
export function secondCheckCause({ modules, secondCheck }: View): Cause | undefined {
  const isComplete = [...modules.values()].some(
    (each) => each.awaitsScript && each.missingValues.length === 0,
  );
  if (isComplete) return { kind: "sources" };
  return secondCheck ? { kind: "second-look" } : undefined;
}
