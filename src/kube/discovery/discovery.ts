/** API discovery: the kinds that the API server serves. */

import { systemClock, type Clock } from "../../lib/index.ts";
import { ConnectionError } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { apiVersionOf, type Resource } from "../resources.ts";

/** Minimum interval between discoveries for a kind that was not found. */
const CHECK_AGAIN_MS = 2000;

interface Reading {
  readonly at: number;
  /** In the server's order of preference. */
  readonly resources: Promise<readonly Resource[]>;
}

/**
 * Caches API discovery. Reads it at the first call, and again after `invalidate` or when a kind is not found;
 * concurrent calls share one request. When an aggregated API is down, its kinds from the last discovery are kept.
 * All methods throw ApiError or ConnectionError.
 */
export class Discovery {
  readonly #client: KubeClient;
  readonly #clock: Clock;
  #reading: Reading | undefined;
  #last: readonly Resource[] = [];

  constructor(client: KubeClient, clock: Clock = systemClock) {
    this.#client = client;
    this.#clock = clock;
  }

  /**
   * The resource that `kind` means (see `find`); undefined if the server does not serve it, even after a new
   * discovery.
   */
  async resolve(kind: string, apiVersion?: string): Promise<Resource | undefined> {
    const reading = this.#read();
    const found = find(await reading.resources, kind, apiVersion);
    if (found !== undefined || this.#clock.monotonic() - reading.at < CHECK_AGAIN_MS) return found;
    // Unless a concurrent call has started a newer discovery.
    if (this.#reading === reading) this.invalidate();
    return find(await this.#read().resources, kind, apiVersion);
  }

  /** Makes the next call read discovery again, after a CRD or APIService was created, changed or deleted. */
  invalidate(): void {
    this.#reading = undefined;
  }

  #read(): Reading {
    if (this.#reading !== undefined) return this.#reading;
    const reading: Reading = { at: this.#clock.monotonic(), resources: this.#query() };
    this.#reading = reading;
    // The next call tries again.
    reading.resources.catch(() => {
      if (this.#reading === reading) this.#reading = undefined;
    });
    return reading;
  }

  async #query(): Promise<readonly Resource[]> {
    const [core, groups] = await Promise.all([this.#versions("/api"), this.#versions("/apis")]);
    const before = Object.groupBy(this.#last, apiVersionOf);
    this.#last = [...core, ...groups].flatMap(
      (version) => version.resources ?? before[apiVersionOf(version)] ?? [],
    );
    return this.#last;
  }

  async #versions(path: string): Promise<GroupVersion[]> {
    const list = await this.#client.json<AggregatedList>({ path, accept: AGGREGATED });
    if (list.kind === "APIGroupDiscoveryList") return readAggregated(list);
    throw new ConnectionError(
      "EOLD",
      "the API server has no aggregated discovery: Kubernetes 1.30 or later is needed",
    );
  }
}

/**
 * The resource that `kind` means: kind, plural, singular or short name in any case, also as `plural.group`, within
 * `apiVersion` (`v1`, `group/version`) when that is given. The core group wins over others, a group's preferred
 * version over its others.
 */
function find(resources: readonly Resource[], kind: string, apiVersion?: string): Resource | undefined {
  const wanted = kind.toLowerCase();
  const within = apiVersion ? resources.filter((each) => apiVersionOf(each) === apiVersion) : resources;
  const direct = byName(within, wanted);
  const dot = wanted.indexOf(".");
  if (direct !== undefined || dot < 0) return direct;
  const group = wanted.slice(dot + 1);
  return byName(
    within.filter((resource) => resource.group === group),
    wanted.slice(0, dot),
  );
}

const NAMINGS: readonly ((resource: Resource, name: string) => boolean)[] = [
  (resource, name) => resource.kind.toLowerCase() === name,
  (resource, name) => resource.plural === name,
  (resource, name) => resource.singular === name,
  (resource, name) => resource.shortNames?.includes(name) ?? false,
];

function byName(resources: readonly Resource[], name: string): Resource | undefined {
  for (const matches of NAMINGS) {
    const found = resources.find((resource) => matches(resource, name));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** One group version of the discovery answer. */
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
