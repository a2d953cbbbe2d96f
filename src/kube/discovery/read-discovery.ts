/** Reads the answers of aggregated discovery, which every server since Kubernetes 1.30 knows. */

import type { Resource } from "./resources.ts";

/** One group version as read. */
export interface GroupVersion {
  readonly group: string;
  readonly version: string;
  /** undefined = its server (an aggregated API) does not answer now. */
  readonly resources: readonly Resource[] | undefined;
}

/** Its `Accept` header. */
export const AGGREGATED =
  "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

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
}

/** Group versions of an aggregated answer, in its order: the preferred version of a group comes first. */
export function readAggregated(list: AggregatedList): GroupVersion[] {
  return (list.items ?? []).flatMap((group) =>
    (group.versions ?? []).map((version) => readVersion(group.metadata?.name ?? "", version)),
  );
}

function readVersion(group: string, { version, freshness, resources = [] }: AggregatedVersion): GroupVersion {
  // Entries that exist only as parents of subresources have no kind.
  const served = resources.flatMap((resource) => readResource({ group, version }, resource));
  return { group, version, resources: freshness === "Stale" && served.length === 0 ? undefined : served };
}

function readResource(at: Pick<Resource, "group" | "version">, resource: AggregatedResource): Resource[] {
  const kind = resource.responseKind?.kind;
  if (!kind) return [];
  return [
    {
      ...at,
      kind,
      plural: resource.resource,
      namespaced: resource.scope === "Namespaced",
      verbs: resource.verbs ?? [],
      singular: resource.singularResource || kind.toLowerCase(),
      shortNames: resource.shortNames ?? [],
    },
  ];
}
