/** The namespace of a module's release (docs/guides/tenancy.md, "Give a module a namespace"). */

import type { AddonOptions, Problem } from "../../model/index.ts";
import type { ReadTreeOptions } from "./reading.ts";

/** The longest name of a namespace that Kubernetes allows. */
const LONGEST = 63;

/**
 * The namespace of a module's release: that in `addon.yaml`, else that of `--module-namespace-template`; undefined
 * means the operator's namespace.
 */
export function namespaceOf(
  { namespaceTemplate }: Pick<ReadTreeOptions, "namespaceTemplate">,
  module: string,
  addonFile: Pick<AddonOptions, "namespace">,
): string | undefined {
  return addonFile.namespace ?? namespaceTemplate?.replaceAll("{name}", module);
}

/**
 * Returns a problem if the template makes a namespace that is too long; `file` is the path of the module's
 * `addon.yaml`.
 */
export function namespaceProblems(namespace = "", file: string): Problem[] {
  if (namespace.length <= LONGEST) return [];
  const message = `would be ${namespace} by --module-namespace-template, which is longer than ${LONGEST} characters`;
  return [{ file, key: "namespace", message, remedy: "set a shorter one here, or shorten the template" }];
}
