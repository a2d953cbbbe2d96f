/** Which releases are outside of the operator's namespace (docs/guides/tenancy.md, "Give a module a namespace"). */

import { create, get, ignoreNotFound, isAlreadyExists, isNotFound, mergePatch } from "../../kube/index.ts";
import { MANAGED_BY_OPERATOR, SECRETS } from "../../kube/index.ts";
import type { KubeClient, Secret } from "../../kube/index.ts";
import { attempt } from "../../lib/index.ts";
import { asString, objectOf, type Json } from "../../model/index.ts";

/** Where a release is that is not, or not only, in the operator's namespace. */
export interface Place {
  readonly namespace: string;
  /** It is being moved from this namespace. */
  readonly from?: string | undefined;
  /** The ServiceAccount as which its module acts, also when the module's directory is missing: `NAMESPACE/NAME`. */
  readonly account?: string | undefined;
}

interface PlacesOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Name of the Secret; without it, nothing is stored. */
  readonly secret: string | undefined;
}

/** The name of the Secret that lists the releases in other namespaces. */
export function placesSecretName(configMap: string): string {
  return `addon-operator-${configMap}-releases`;
}

/**
 * The places of releases, stored in a Secret of the operator's namespace. A release in another namespace counts only if it is
 * listed there: records elsewhere may be written by those who use that namespace.
 */
export class Places {
  readonly #options: PlacesOptions;
  readonly #known = new Map<string, Place>();

  constructor(options: PlacesOptions) {
    this.#options = options;
  }

  /** The place of a release; undefined = the operator's namespace. */
  get(release: string): Place | undefined {
    return this.#known.get(release);
  }

  releases(): Iterable<string> {
    return this.#known.keys();
  }

  /** All namespaces of releases beside the operator's. */
  namespaces(): string[] {
    return [...this.#known.values()].flatMap(({ namespace, from }) => [namespace, ...(from ? [from] : [])]);
  }

  /** Reads the stored places. Throws ApiError, ConnectionError. */
  async read(): Promise<void> {
    const { client, namespace, secret: name } = this.#options;
    if (name === undefined) return;
    const found = await get<Secret>(client, { resource: SECRETS, namespace, name }).catch(ignoreNotFound);
    this.#known.clear();
    for (const [release, data] of Object.entries(found?.data ?? {})) {
      const place = placeIn(data);
      if (place !== undefined) this.#known.set(release, place);
    }
  }

  /** Stores the place of a release; undefined = the operator's namespace. Returns whether it changed. Throws ApiError, ConnectionError. */
  async set(release: string, place: Place | undefined, signal?: AbortSignal): Promise<boolean> {
    const before = this.#known.get(release);
    const isSame = (["namespace", "from", "account"] as const).every((key) => place?.[key] === before?.[key]);
    if (isSame) return false;
    await this.#write(release, place, signal);
    if (place === undefined) this.#known.delete(release);
    else this.#known.set(release, place);
    return true;
  }

  /** Merges an entry into the Secret. Creates it, with all entries, if it does not exist. */
  async #write(release: string, place: Place | undefined, signal: AbortSignal | undefined): Promise<void> {
    const { client, namespace, secret: name } = this.#options;
    if (name === undefined) return;
    const target = { resource: SECRETS, namespace, name };
    const patch = () =>
      mergePatch(client, target, { body: { data: { [release]: place ? encoded(place) : null } }, signal });
    try {
      await patch();
    } catch (error) {
      if (!isNotFound(error)) throw error;
      if (place === undefined) return;
      const all = [...this.#known, [release, place] as const];
      const data = Object.fromEntries(all.map(([each, its]) => [each, encoded(its)]));
      const metadata = { name, namespace, labels: MANAGED_BY_OPERATOR };
      const body = { apiVersion: "v1", kind: "Secret", metadata, data };
      await create(client, { resource: SECRETS, namespace }, { body, signal }).catch((failure: unknown) => {
        // Another module was faster.
        if (isAlreadyExists(failure)) return patch();
        throw failure;
      });
    }
  }
}

function encoded(place: Place): string {
  return Buffer.from(JSON.stringify(place)).toString("base64");
}

/** A stored place; undefined for anything else. */
function placeIn(data: string): Place | undefined {
  const json = objectOf(attempt(() => JSON.parse(Buffer.from(data, "base64").toString("utf8")) as Json));
  const namespace = asString(json["namespace"]);
  if (namespace === undefined) return undefined;
  return { namespace, from: asString(json["from"]), account: asString(json["account"]) };
}
