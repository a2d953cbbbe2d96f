/** The namespace of a module's release (docs/guides/tenancy.md, "Give a module a namespace"). */

import type { AddonOptions, Problem } from "../../model/index.ts";
import type { ReadTreeOptions } from "./reading.ts";

/** The longest name of a namespace that Kubernetes allows. */
const MAX_NAMESPACE_LENGTH = 63;

/**
 * The namespace of a module's release: that in `addon.yaml`, else that of `--module-namespace-template`; undefined
 * means the operator's namespace.
 */
export function chooseNamespace(
  { namespaceTemplate }: Pick<ReadTreeOptions, "namespaceTemplate">,
  module: string,
  addonFile: Pick<AddonOptions, "namespace">,
): string | undefined {
  return addonFile.namespace ?? namespaceTemplate?.replaceAll("{name}", module);
}

/** The problem of a namespace that the template makes too long; the remedy belongs into `file`, the module's `addon.yaml`. */
export function checkNamespaceLength(namespace = "", file: string): Problem[] {
  if (namespace.length <= MAX_NAMESPACE_LENGTH) return [];
  const message = `would be ${namespace} by --module-namespace-template, which is longer than ${MAX_NAMESPACE_LENGTH} characters`;
  return [{ file, key: "namespace", message, remedy: "set a shorter one here, or shorten the template" }];
}
