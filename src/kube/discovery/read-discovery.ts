/** Reads the answers of discovery: aggregated, or group by group from servers that do not know that. */

import type { Resource } from "./resources.ts";
import type { KubeClient } from "../client/client.ts";
import type { CoreVersions, GroupList } from "../objects.ts";
import { inParallel } from "../parallel.ts";

/** One group version as read. */
export interface GroupVersion {
  readonly group: string;
  readonly version: string;
  /** undefined = its server (an aggregated API) does not answer now. */
  readonly resources: readonly Resource[] | undefined;
}

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

function readResource(at: Named, resource: AggregatedResource): Resource[] {
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

/** What is used of an APIResourceList; aggregated API servers leave out empty lists. */
interface ResourceList {
  readonly resources?: readonly {
    readonly name: string;
    readonly kind: string;
    readonly namespaced: boolean;
    readonly singularName?: string;
    readonly shortNames?: readonly string[];
    readonly verbs?: readonly string[];
  }[];
}

type Named = Pick<Resource, "group" | "version">;

const PARALLEL = 8;

/** Reads each group version by itself, as servers before 1.27 require; one that fails is unavailable. */
export function walk(client: KubeClient, list: CoreVersions | GroupList): Promise<GroupVersion[]> {
  return inParallel(PARALLEL, namesOf(list), (named) => readOne(client, named));
}

function namesOf(list: CoreVersions | GroupList): Named[] {
  if (list.kind === "APIVersions") return (list.versions ?? []).map((version) => ({ group: "", version }));
  return (list.groups ?? []).flatMap(({ name, versions, preferredVersion }) => {
    const preferred = preferredVersion?.version;
    const rank = (version: string): number => (version === preferred ? 0 : 1);
    const ordered = (versions ?? []).map(({ version }) => version).toSorted((a, b) => rank(a) - rank(b));
    return ordered.map((version) => ({ group: name, version }));
  });
}

async function readOne(client: KubeClient, { group, version }: Named): Promise<GroupVersion> {
  const path = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  try {
    return readList({ group, version }, await client.json<ResourceList>({ path }));
  } catch {
    return { group, version, resources: undefined };
  }
}

function readList({ group, version }: Named, { resources = [] }: ResourceList): GroupVersion {
  // Subresources have a slash in their names.
  const served = resources.filter(({ name }) => !name.includes("/"));
  return {
    group,
    version,
    resources: served.map(({ name: plural, kind, namespaced, singularName, shortNames = [], verbs = [] }) => {
      const singular = singularName || kind.toLowerCase();
      return { group, version, plural, kind, namespaced, singular, shortNames, verbs };
    }),
  };
}
