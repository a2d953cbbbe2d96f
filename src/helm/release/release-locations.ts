/**
 * Which releases are outside of the operator's namespace (docs/guides/tenancy.md, "Give a module a namespace"): a Secret has an entry for
 * each, its *location* as JSON.
 */

import { create, get, ignoreNotFound, isAlreadyExists, isNotFound, mergePatch } from "../../kube/index.ts";
import { MANAGED_BY_OPERATOR, SECRETS } from "../../kube/index.ts";
import type { KubeClient, Secret } from "../../kube/index.ts";
import { attempt } from "../../base/index.ts";
import { asString, objectOf, type Json } from "../../base/model/index.ts";

/** The location of a release that is in another namespace than the operator's, or is being moved. */
export interface ReleaseLocation {
  readonly namespace: string;
  /** It is being moved from this namespace. */
  readonly from?: string | undefined;
  /** The ServiceAccount as which its module acts, also when the module's directory is missing: `NAMESPACE/NAME`. */
  readonly account?: string | undefined;
}

interface ReleaseLocationsOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Name of the Secret; without it, nothing is stored. */
  readonly secret: string | undefined;
}

/** The name of the Secret that lists the releases in other namespaces. */
export function locationsSecretName(configMap: string): string {
  return `addon-operator-${configMap}-releases`;
}

/**
 * The locations of releases, stored in a Secret of the operator's namespace. A release in another namespace counts only if this Secret
 * lists it: tenants of that namespace could otherwise forge the record of a release and have the operator act on it.
 */
export class ReleaseLocations {
  readonly #options: ReleaseLocationsOptions;
  readonly #locations = new Map<string, ReleaseLocation>();

  constructor(options: ReleaseLocationsOptions) {
    this.#options = options;
  }

  get(release: string): ReleaseLocation | undefined {
    return this.#locations.get(release);
  }

  /** The names of all releases with a stored location. */
  releaseNames(): Iterable<string> {
    return this.#locations.keys();
  }

  /** All namespaces of releases beside the operator's, also those from which a release is being moved. */
  namespaces(): string[] {
    const all = [...this.#locations.values()].flatMap(({ namespace, from }) => [namespace, from]);
    return all.filter((namespace) => namespace !== undefined);
  }

  /** Reads the stored locations. Ignores invalid ones, and does nothing without a Secret. Throws ApiError, ConnectionError. */
  async read(): Promise<void> {
    const { client, namespace, secret: name } = this.#options;
    if (name === undefined) return;
    const found = await get<Secret>(client, { resource: SECRETS, namespace, name }).catch(ignoreNotFound);
    this.#locations.clear();
    for (const [release, data] of Object.entries(found?.data ?? {})) {
      const location = decodeLocation(data);
      if (location !== undefined) this.#locations.set(release, location);
    }
  }

  /** Stores the location of a release; undefined = the operator's namespace. Returns whether it changed. Throws ApiError, ConnectionError. */
  async set(release: string, location: ReleaseLocation | undefined, signal?: AbortSignal): Promise<boolean> {
    const before = this.#locations.get(release);
    const isSame = (["namespace", "from", "account"] as const).every(
      (key) => location?.[key] === before?.[key],
    );
    if (isSame) return false;
    await this.#write(release, location, signal);
    if (location === undefined) this.#locations.delete(release);
    else this.#locations.set(release, location);
    return true;
  }

  /** Stores all locations again if the Secret was deleted; returns whether it was. Throws ApiError, ConnectionError. */
  async restore(): Promise<boolean> {
    const { client, namespace, secret: name } = this.#options;
    if (name === undefined || this.#locations.size === 0) return false;
    const found = await get<Secret>(client, { resource: SECRETS, namespace, name }).catch(ignoreNotFound);
    if (found !== undefined) return false;
    // If the run of a module creates the Secret at this moment, it stores all locations, too.
    await this.#create(name, this.#locations).catch((error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
    });
    return true;
  }

  /** Merges the entry of a release into the Secret; undefined removes the entry. A missing Secret is created with all known entries. */
  async #write(
    release: string,
    location: ReleaseLocation | undefined,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { client, namespace, secret: name } = this.#options;
    if (name === undefined) return;
    const target = { resource: SECRETS, namespace, name };
    const patch = () =>
      mergePatch(client, target, {
        body: { data: { [release]: location ? encodeLocation(location) : null } },
        signal,
      });
    try {
      await patch();
    } catch (error) {
      if (!isNotFound(error)) throw error;
      if (location === undefined) return;
      const locations = new Map([...this.#locations, [release, location]]);
      await this.#create(name, locations, signal).catch((failure: unknown) => {
        // The run of another module has created the Secret meanwhile.
        if (isAlreadyExists(failure)) return patch();
        throw failure;
      });
    }
  }

  /** Creates the Secret with these locations. */
  async #create(
    name: string,
    locations: ReadonlyMap<string, ReleaseLocation>,
    signal?: AbortSignal,
  ): Promise<void> {
    const { client, namespace } = this.#options;
    const entries = [...locations].map(([release, location]) => [release, encodeLocation(location)]);
    const metadata = { name, namespace, labels: MANAGED_BY_OPERATOR };
    const body = { apiVersion: "v1", kind: "Secret", metadata, data: Object.fromEntries(entries) };
    await create(client, { resource: SECRETS, namespace }, { body, signal });
  }
}

function encodeLocation(location: ReleaseLocation): string {
  return Buffer.from(JSON.stringify(location)).toString("base64");
}

/** Decodes a location from a value of a Secret's `data`; undefined if the value is invalid. */
function decodeLocation(data: string): ReleaseLocation | undefined {
  const json = objectOf(attempt(() => JSON.parse(Buffer.from(data, "base64").toString("utf8")) as Json));
  const namespace = asString(json["namespace"]);
  if (namespace === undefined) return undefined;
  return { namespace, from: asString(json["from"]), account: asString(json["account"]) };
}
