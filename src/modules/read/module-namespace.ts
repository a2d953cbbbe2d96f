/** The namespace of a module's release (docs/guides/tenancy.md, "Give a module a namespace"). */

import type { AddonOptions, Problem } from "../../model/index.ts";
import type { ReadTreeOptions } from "./reading.ts";

/** What Kubernetes allows. */
const LONGEST = 63;

/** The namespace of a module's release by `addon.yaml`, else by the template; undefined = the operator's. */
export function namespaceOf(
  { namespaceTemplate }: Pick<ReadTreeOptions, "namespaceTemplate">,
  module: string,
  addonFile: Pick<AddonOptions, "namespace">,
): string | undefined {
  return addonFile.namespace ?? namespaceTemplate?.replaceAll("{name}", module);
}

/** The problem of a namespace that the template makes too long. */
export function namespaceProblems(namespace = "", file: string): Problem[] {
  if (namespace.length <= LONGEST) return [];
  const message = `would be ${namespace} by --module-namespace-template, which is longer than ${LONGEST} characters`;
  return [{ file, key: "namespace", message, remedy: "set a shorter one here, or shorten the template" }];
}
