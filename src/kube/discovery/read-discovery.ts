/** Reads the API server's resources group by group, for servers without aggregated discovery. */

import type { GroupVersion } from "./catalog.ts";
import type { KubeClient } from "../client/client.ts";
import type { CoreVersions, GroupList } from "../objects.ts";
import { inParallel } from "../parallel.ts";

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

interface Named {
  readonly group: string;
  readonly version: string;
}

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
    return { group, version, resources: [], otherKinds: [], available: false };
  }
}

function readList({ group, version }: Named, list: ResourceList): GroupVersion {
  const served = list.resources ?? [];
  const isSub = (name: string): boolean => name.includes("/");
  return {
    group,
    version,
    resources: served
      .filter(({ name }) => !isSub(name))
      .map(({ name, kind, namespaced, singularName, shortNames = [], verbs = [] }) => {
        const singular = singularName || kind.toLowerCase();
        return { group, version, plural: name, kind, namespaced, singular, shortNames, verbs };
      }),
    otherKinds: served.filter(({ name }) => isSub(name)).map(({ kind }) => kind),
    available: true,
  };
}
