/** API discovery: the kinds that the API server serves. */

import { systemClock, type Clock } from "../../base/index.ts";
import { ConnectionError, isNotFound } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { apiVersionOf, type Resource } from "../resources.ts";

const MIN_INTERVAL_MS = 2000;

/** One discovery of all kinds, under way or done. */
interface DiscoveryRequest {
  readonly startedAt: number;
  /** In the server's order of preference. */
  readonly versions: Promise<readonly GroupVersion[]>;
}

/** The server of an aggregated API does not answer, so its kinds are unknown: a kind that is not found may exist. */
class UnavailableApiError extends ConnectionError {
  constructor(apiVersion: string) {
    super(
      "EAPIDOWN",
      `the API ${apiVersion} does not answer, so its kinds are unknown; ${remedyOf(apiVersion)}`,
    );
    this.name = "UnavailableApiError";
  }
}

/** What to do about an aggregated API whose server does not answer. */
export function remedyOf(apiVersion: string): string {
  const [group = "", version = ""] = apiVersion.split("/");
  return `see kubectl describe apiservice ${version}.${group}`;
}

/**
 * Caches API discovery. Reads it at the first call, and again after `invalidate` or when a kind is not found; concurrent calls share one request.
 * When an aggregated API is down, its kinds from the last discovery are kept. All methods throw ApiError or ConnectionError.
 */
export class Discovery {
  readonly #client: KubeClient;
  readonly #clock: Clock;
  #lastRequest: DiscoveryRequest | undefined;
  #lastVersions: readonly GroupVersion[] = [];

  constructor(client: KubeClient, clock: Clock = systemClock) {
    this.#client = client;
    this.#clock = clock;
  }

  /**
   * Finds the resource that `kind` names (see `findResource`); undefined if the server does not serve it, even after a new discovery. Throws
   * UnavailableApiError if the kind is not found because its API does not answer: that is no proof that the kind is gone.
   */
  async resolve(kind: string, apiVersion?: string): Promise<Resource | undefined> {
    const request = this.#getOrStartRequest();
    const resource = findResource(listResources(await request.versions), kind, apiVersion);
    // Many missing kinds must not burden the API server with a discovery each.
    const isRecent = this.#clock.monotonic() - request.startedAt < MIN_INTERVAL_MS;
    if (resource !== undefined) return resource;
    // Keep a newer discovery that a concurrent call has started.
    if (!isRecent && this.#lastRequest === request) this.invalidate();
    const versions = await (isRecent ? request : this.#getOrStartRequest()).versions;
    const found = findResource(listResources(versions), kind, apiVersion);
    const isUnknown = (version: GroupVersion): boolean =>
      version.resources === undefined && apiVersionOf(version) === apiVersion;
    if (found === undefined && apiVersion !== undefined && versions.some(isUnknown))
      throw new UnavailableApiError(apiVersion);
    return found;
  }

  /** Reads all group versions now, in the server's order of preference. Those of an aggregated API that is down keep their kinds. */
  readVersions(): Promise<readonly GroupVersion[]> {
    this.invalidate();
    return this.#getOrStartRequest().versions;
  }

  /** Makes the next call read discovery again, after a CRD or APIService was created, changed or deleted. */
  invalidate(): void {
    this.#lastRequest = undefined;
  }

  /** Returns the cached discovery, or starts one; a failed one is not cached. */
  #getOrStartRequest(): DiscoveryRequest {
    if (this.#lastRequest !== undefined) return this.#lastRequest;
    const request = { startedAt: this.#clock.monotonic(), versions: this.#requestVersions() };
    this.#lastRequest = request;
    // The next call tries again.
    request.versions.catch(() => {
      if (this.#lastRequest === request) this.#lastRequest = undefined;
    });
    return request;
  }

  /**
   * Requests all group versions. An aggregated API that is down keeps its kinds from the last discovery, also if discovery does not list it,
   * for example while the API server starts.
   */
  async #requestVersions(): Promise<readonly GroupVersion[]> {
    const lists = await Promise.all(["/api", "/apis"].map((path) => this.#requestGroupVersions(path)));
    lists.push(await this.#findUnlistedVersions(lists.flat()));
    const lastKinds = new Map(
      this.#lastVersions.map((version) => [apiVersionOf(version), version.resources]),
    );
    this.#lastVersions = lists.flat().map((version) => ({
      ...version,
      resources: version.resources ?? lastKinds.get(apiVersionOf(version)),
    }));
    return this.#lastVersions;
  }

  /**
   * The versions of aggregated APIs that discovery does not list although their APIService exists: they are unknown, not removed. Queries the server at
   * the first discovery, and when listed versions are missing.
   */
  async #findUnlistedVersions(listed: readonly GroupVersion[]): Promise<GroupVersion[]> {
    const listedNames = new Set(listed.map(apiVersionOf));
    const missing = this.#lastVersions.filter((version) => !listedNames.has(apiVersionOf(version)));
    if (this.#lastVersions.length > 0 && missing.length === 0) return [];
    try {
      const { items } = await this.#client.json<ApiServiceList>({ path: API_SERVICES });
      return (items ?? [])
        .flatMap(({ spec }) => (spec?.service ? [toUnknownVersion(spec)] : []))
        .filter((version) => !listedNames.has(apiVersionOf(version)));
    } catch {
      // Without permission to list APIServices, the API itself shows whether it is removed.
      const removed = await Promise.all(missing.map((version) => this.#isRemoved(version)));
      return missing.filter((_, index) => removed[index] !== true).map(toUnknownVersion);
    }
  }

  /** Whether the server answers that it does not know a group version. Any other answer says nothing. */
  #isRemoved(version: GroupVersion): Promise<boolean> {
    const path = `/apis/${apiVersionOf(version)}`;
    return this.#client.json({ path }).then(() => false, isNotFound);
  }

  /** Requests the kinds below `/api` (core) or `/apis`. Throws if the server is too old for aggregated discovery. */
  async #requestGroupVersions(path: string): Promise<GroupVersion[]> {
    const list = await this.#client.json<AggregatedList>({ path, accept: AGGREGATED_DISCOVERY_ACCEPT });
    if (list.kind === "APIGroupDiscoveryList") return readAggregated(list);
    const message = "the API server has no aggregated discovery: Kubernetes 1.30 or later is needed";
    throw new ConnectionError("EOLD", message);
  }
}

function listResources(versions: readonly GroupVersion[]): Resource[] {
  return versions.flatMap(({ resources = [] }) => resources);
}

/**
 * Finds the resource that `kind` names: kind, plural, singular or short name in any case, also as `plural.group`, within `apiVersion` (`v1`,
 * `group/version`) when that is given. The core group wins over others, a group's preferred version over its others.
 */
function findResource(
  resources: readonly Resource[],
  kind: string,
  apiVersion?: string,
): Resource | undefined {
  const name = kind.toLowerCase();
  const candidates = apiVersion ? resources.filter((each) => apiVersionOf(each) === apiVersion) : resources;
  const resource = findByName(candidates, name);
  const dot = name.indexOf(".");
  if (resource !== undefined || dot < 0) return resource;
  // `plural.group`.
  const group = name.slice(dot + 1);
  const candidatesOfGroup = candidates.filter((resource) => resource.group === group);
  return findByName(candidatesOfGroup, name.slice(0, dot));
}

/** How a name may match a resource, by precedence. */
const NAME_MATCHERS: readonly ((resource: Resource, name: string) => boolean)[] = [
  (resource, name) => resource.kind.toLowerCase() === name,
  (resource, name) => resource.plural === name,
  (resource, name) => resource.singular === name,
  (resource, name) => resource.shortNames?.includes(name) ?? false,
];

/** Finds a resource by its kind, else by its plural, singular or short name: a kind of this name wins over a short name. */
function findByName(resources: readonly Resource[], name: string): Resource | undefined {
  for (const matches of NAME_MATCHERS) {
    const found = resources.find((resource) => matches(resource, name));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** One group version of the discovery answer. */
export interface GroupVersion {
  readonly group: string;
  readonly version: string;
  /** The server of this aggregated API does not answer now. */
  readonly isDown: boolean;
  /** undefined = unknown, because the API is down and its kinds were never read. */
  readonly resources: readonly Resource[] | undefined;
}

const API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices";

/** The parts of APIServices that the operator reads. `service` is missing if the API server itself serves the API. */
interface ApiServiceList {
  readonly items?:
    | readonly { readonly spec?: { group?: string; version?: string; service?: object | null } }[]
    | null;
}

function toUnknownVersion({ group = "", version = "" }: { group?: string; version?: string }): GroupVersion {
  return { group, version, isDown: true, resources: undefined };
}

/** `Accept` header that requests aggregated discovery: all kinds in one answer. */
const AGGREGATED_DISCOVERY_ACCEPT =
  "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/** The parts of an APIGroupDiscoveryList that the operator reads. */
interface AggregatedList {
  readonly kind: "APIGroupDiscoveryList";
  readonly items?: readonly {
    readonly metadata?: { readonly name?: string };
    readonly versions?: readonly AggregatedVersion[];
  }[];
}

interface AggregatedVersion {
  readonly version: string;
  readonly freshness?: string;
  readonly resources?: readonly {
    readonly resource: string;
    readonly responseKind?: { readonly kind?: string } | null;
    readonly scope: string;
    readonly singularResource?: string;
    readonly shortNames?: readonly string[];
    readonly verbs?: readonly string[];
  }[];
}

/** Reads the group versions of an aggregated answer, in its order: the preferred version of a group comes first. */
function readAggregated(list: AggregatedList): GroupVersion[] {
  return (list.items ?? []).flatMap((group) =>
    (group.versions ?? []).map((version) => toGroupVersion(group.metadata?.name ?? "", version)),
  );
}

/**
 * Converts one version of a group; with undefined resources if the server of an aggregated API is down (`Stale`). Leaves out entries that
 * exist only as parents of subresources: they have no kind.
 */
function toGroupVersion(
  group: string,
  { version, freshness, resources = [] }: AggregatedVersion,
): GroupVersion {
  const served = resources.flatMap((resource): Resource[] => {
    const { responseKind, resource: plural, scope, verbs = [], shortNames = [] } = resource;
    const kind = responseKind?.kind;
    if (!kind) return [];
    const singular = resource.singularResource || kind.toLowerCase();
    return [
      { group, version, kind, plural, namespaced: scope === "Namespaced", verbs, singular, shortNames },
    ];
  });
  const isDown = freshness === "Stale";
  return { group, version, isDown, resources: isDown && served.length === 0 ? undefined : served };
}
