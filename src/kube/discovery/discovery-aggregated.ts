/** Reads the answer of aggregated discovery. */

import type { GroupVersion } from "./catalog.ts";
import type { Resource } from "./resources.ts";

/** `Accept` of aggregated discovery; a server that does not know it answers in the old form. */
export const AGGREGATED =
  "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
  "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/** The parts of APIGroupDiscoveryList that are used. */
export interface AggregatedList {
  readonly kind: "APIGroupDiscoveryList";
  readonly items?: readonly AggregatedGroup[];
}

interface AggregatedGroup {
  readonly metadata?: { readonly name?: string };
  readonly versions?: readonly AggregatedVersion[];
}

interface AggregatedVersion {
  readonly version: string;
  readonly freshness?: string;
  readonly resources?: readonly AggregatedResource[];
}

interface AggregatedResource {
  readonly resource: string;
  readonly responseKind?: { readonly kind?: string } | null;
  readonly scope: string;
  readonly singularResource?: string;
  readonly shortNames?: readonly string[];
  readonly verbs?: readonly string[];
  readonly subresources?: readonly { readonly responseKind?: { readonly kind?: string } | null }[];
}

/** Group versions of an aggregated answer, in its order: the preferred version of a group comes first. */
export function readAggregated(list: AggregatedList): GroupVersion[] {
  return (list.items ?? []).flatMap((group) =>
    (group.versions ?? []).map((version) => readVersion(group.metadata?.name ?? "", version)),
  );
}

function readVersion(group: string, version: AggregatedVersion): GroupVersion {
  const served = version.resources ?? [];
  return {
    group,
    version: version.version,
    // Entries that exist only as parents of subresources have no kind.
    resources: served.flatMap((resource) => readResource({ group, version: version.version }, resource)),
    otherKinds: served.flatMap((resource) => (resource.subresources ?? []).flatMap(kindOf)),
    available: version.freshness !== "Stale",
  };
}

function readResource(at: Pick<Resource, "group" | "version">, resource: AggregatedResource): Resource[] {
  return kindOf(resource).map((kind) => ({
    ...at,
    kind,
    plural: resource.resource,
    namespaced: resource.scope === "Namespaced",
    verbs: resource.verbs ?? [],
    singular: resource.singularResource || kind.toLowerCase(),
    shortNames: resource.shortNames ?? [],
  }));
}

function kindOf(of: { readonly responseKind?: { readonly kind?: string } | null }): string[] {
  return of.responseKind?.kind ? [of.responseKind.kind] : [];
}
