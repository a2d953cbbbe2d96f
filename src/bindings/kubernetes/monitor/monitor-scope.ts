/** Which watches a binding needs. */

import type { Resource, WatchSpec } from "../../../kube/index.ts";
import { labelSelectorText } from "../../../kube/index.ts";
import type { KubernetesBinding } from "../../../model/index.ts";

/** The watches of a binding: all of one form. */
export interface ScopeOptions {
  readonly resource: Resource;
  readonly keepManagedFields: boolean;
}

/** One watch for each name in `namespace`; undefined = everywhere. */
export function specsIn(
  namespace: string | undefined,
  binding: KubernetesBinding,
  options: ScopeOptions,
): WatchSpec[] {
  const names = listOf(binding.names) ?? [undefined];
  return names.map((name) => ({
    resource: options.resource,
    namespace,
    labelSelector: labelSelectorText(binding.labelSelector),
    fieldSelector: fieldsOf(binding.fieldSelector, name),
    // Nothing of the object is needed but its version.
    metadataOnly: !binding.keepFullObjects && binding.jqFilter === undefined,
    keepManagedFields: options.keepManagedFields,
  }));
}

/** The namespaces that a binding names; [undefined] = all, or a cluster-wide kind. */
export function fixedNamespaces(
  binding: KubernetesBinding,
  resource: Resource,
): readonly (string | undefined)[] {
  return (resource.namespaced ? listOf(binding.namespaces) : undefined) ?? [undefined];
}

/** True when the namespaces of a binding come and go with their labels. */
export function followsNamespaces(binding: KubernetesBinding, resource: Resource): boolean {
  return resource.namespaced && binding.namespaceLabels !== undefined;
}

/** True when a namespace that has the labels is also among the names, if there are names. */
export function namespaceWanted(binding: KubernetesBinding, namespace: string): boolean {
  return listOf(binding.namespaces)?.includes(namespace) ?? true;
}

// An empty list selects everything, as in the Go operator.
function listOf(names: readonly string[] | undefined): readonly string[] | undefined {
  return names === undefined || names.length === 0 ? undefined : [...new Set(names)];
}

function fieldsOf(selector: string | undefined, name: string | undefined): string | undefined {
  const terms = [selector, name === undefined ? undefined : `metadata.name=${name}`];
  const text = terms.filter((term) => term !== undefined && term !== "").join(",");
  return text === "" ? undefined : text;
}
