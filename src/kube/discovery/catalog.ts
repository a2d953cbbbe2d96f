/** What the API server serves, and which resource a kind means. */

import type { Resource } from "./resources.ts";
import { apiVersionOf } from "./resources.ts";

/** The result of one reading of the discovery endpoints, in the server's order of preference. */
export interface Catalog {
  readonly resources: readonly Resource[];
  /** `group/version` and `group/version/Kind` of everything served, subresources' kinds too; sorted. */
  readonly apiVersions: readonly string[];
  /** Group versions whose server (an aggregated API) does not answer now. */
  readonly unavailable: readonly string[];
}

/** One group version as read. */
export interface GroupVersion {
  readonly group: string;
  readonly version: string;
  readonly resources: readonly Resource[];
  /** Kinds that only subresources have (`Scale`, `Eviction`). */
  readonly otherKinds: readonly string[];
  readonly available: boolean;
}

/**
 * Makes a catalog of group versions in the server's order of preference; an unavailable one keeps its entries of
 * `before`.
 */
export function catalogOf(versions: readonly GroupVersion[], before?: Catalog): Catalog {
  const resources: Resource[] = [];
  const apiVersions = new Set<string>();
  const unavailable: string[] = [];
  for (const version of versions) {
    const name = apiVersionOf(version);
    if (!version.available) unavailable.push(name);
    const kept = version.available || version.resources.length > 0 ? version.resources : known(before, name);
    apiVersions.add(name);
    for (const kind of [...kept.map((resource) => resource.kind), ...version.otherKinds]) {
      apiVersions.add(`${name}/${kind}`);
    }
    resources.push(...kept);
  }
  return { resources, apiVersions: [...apiVersions].toSorted(), unavailable };
}

function known(before: Catalog | undefined, apiVersion: string): readonly Resource[] {
  return before?.resources.filter((resource) => apiVersionOf(resource) === apiVersion) ?? [];
}

/**
 * The resource that `kind` means: kind, plural, singular or short name in any case, also as `plural.group`, within
 * `apiVersion` (`v1`, `group/version`) when that is given. The core group wins over others, a group's preferred
 * version over its others.
 */
export function find(catalog: Catalog, kind: string, apiVersion?: string): Resource | undefined {
  const wanted = kind.toLowerCase();
  const within = apiVersion
    ? catalog.resources.filter((resource) => apiVersionOf(resource) === apiVersion)
    : catalog.resources;
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
