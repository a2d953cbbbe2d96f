/** Handles missing Secrets and ConfigMaps with values (docs/reference/values.md, "Values from Secrets"). */

import type { ModuleView } from "../../state/index.ts";

/** A Secret or ConfigMap for which a module waits. */
export interface MissingValues {
  readonly name: string;
  readonly reason: "ValuesMissing";
  readonly message: string;
  /** A person must create it. */
  readonly needsIntervention: true;
}

/** Splits the recorded texts about missing Secrets and ConfigMaps into name and message, in the form of unmet requirements. */
export function toMissingValues({ missingValues }: Pick<ModuleView, "missingValues">): MissingValues[] {
  return missingValues.map((text) => {
    // The text is the title of the object, then what is wrong with it.
    const [name = "", message = ""] = text.split(", which ");
    return { name, reason: "ValuesMissing", message, needsIntervention: true };
  });
}
