/** The capabilities of the API server, which templates read as `.Capabilities`: its version, and the versions and kinds of its APIs. */

import {
  requestServerVersion,
  type Discovery,
  type GroupVersion,
  type KubeClient,
} from "../../kube/index.ts";
import { digest, shareCalls, type Clock } from "../../base/index.ts";

/** How long the kinds of the server are used again. */
const CAPABILITIES_TTL_MS = 5000;
/** How long its version is used again, which changes only when the control plane is replaced. */
const KUBE_VERSION_TTL_MS = 60_000;
/** The `.Capabilities` of the API server, shared by concurrent callers. All throw ApiError or ConnectionError. */
export interface Capabilities {
  /**
   * Changes with the version of the server and with its kinds; with `apis`, such as `apps/v1` and `apps/v1/Deployment`, only with which of them
   * it has. The kinds of an aggregated API that is down count as before.
   */
  readonly digest: (apis?: ReadonlySet<string>) => Promise<string>;
  /** The version of the server, such as `v1.36.2`; undefined if helm could not read it. */
  readonly kubeVersion: () => Promise<string | undefined>;
  /** Versions and kinds as `.Capabilities.APIVersions` has them, such as `apps/v1` and `apps/v1/Deployment`. */
  readonly apiVersions: () => Promise<readonly string[]>;
}

interface CapabilitiesTools {
  readonly client: KubeClient;
  readonly discovery: Pick<Discovery, "readVersions">;
  readonly clock: Clock;
}

/** Caches the capabilities of the API server. `forget` discards its kinds, for example after CRDs were applied. */
export function cacheCapabilities({ client, discovery, clock }: CapabilitiesTools): {
  readonly capabilities: Capabilities;
  readonly forget: () => void;
} {
  const createCache = (): (() => Promise<ServerKinds>) =>
    shareCalls(clock, CAPABILITIES_TTL_MS, () => requestServerKinds(client, discovery));
  let readCached = createCache();
  const kubeVersion = shareCalls(clock, KUBE_VERSION_TTL_MS, async () => {
    const version = await requestServerVersion(client);
    return /^v?\d+\.\d+/.test(version) ? version : undefined;
  });
  const apiVersions = async (): Promise<string[]> =>
    (await discovery.readVersions()).flatMap(listApiVersions);
  return {
    capabilities: { digest: async (apis) => digestKinds(await readCached(), apis), kubeVersion, apiVersions },
    forget: () => void (readCached = createCache()),
  };
}

/** The version of the server, and its APIs and kinds: `apps/v1`, `apps/v1/Deployment`, and `/v1` of the group without a name. */
interface ServerKinds {
  readonly version: string;
  readonly kinds: ReadonlySet<string>;
}

/** Reads the server version and all kinds. */
async function requestServerKinds(
  client: KubeClient,
  discovery: CapabilitiesTools["discovery"],
): Promise<ServerKinds> {
  const [version, versions] = await Promise.all([requestServerVersion(client), discovery.readVersions()]);
  const kinds = versions.flatMap(({ group, version, resources = [] }) => {
    const apiVersion = `${group}/${version}`;
    return [apiVersion, ...resources.map(({ kind }) => `${apiVersion}/${kind}`)];
  });
  return { version, kinds: new Set(kinds) };
}

/** The digest of the version and of all kinds, or of those of `apis` that the server has. */
function digestKinds({ version, kinds }: ServerKinds, apis?: ReadonlySet<string>): string {
  const counting =
    apis === undefined ? [...kinds] : [...apis].filter((api) => kinds.has(api) || kinds.has(`/${api}`));
  return digest(version, ...counting.sort());
}

/** A version of an API as `apiVersion` of objects has it. */
export function formatApiVersion({ group, version }: Pick<GroupVersion, "group" | "version">): string {
  return group === "" ? version : `${group}/${version}`;
}

/** A version and its kinds, as `.Capabilities.APIVersions` has them. */
export function listApiVersions(served: GroupVersion): string[] {
  const apiVersion = formatApiVersion(served);
  return [apiVersion, ...(served.resources ?? []).map(({ kind }) => `${apiVersion}/${kind}`)];
}
