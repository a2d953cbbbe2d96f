/** What the API server serves, read when needed. */

import type { Clock } from "../../lib/index.ts";
import { systemClock } from "../../lib/index.ts";
import type { Catalog, GroupVersion } from "./catalog.ts";
import { catalogOf, find } from "./catalog.ts";
import type { KubeClient } from "../client/client.ts";
import type { CoreVersions, GroupList } from "../objects.ts";
import type { AggregatedList } from "./read-discovery.ts";
import { AGGREGATED, readAggregated, walk } from "./read-discovery.ts";
import type { Resource } from "./resources.ts";

/** A kind that was not found is looked for again, but not more often than this. */
const LOOK_AGAIN_MS = 2000;

interface Reading {
  readonly at: number;
  readonly catalog: Promise<Catalog>;
}

/**
 * What the API server serves. Read at the first question, and again after `invalidate` or when a kind is not found;
 * concurrent questions share one reading. When an aggregated API is down, only its own kinds are missing, and those
 * seen before are kept. Errors of all questions: ApiError, ConnectionError.
 */
export class Discovery {
  readonly #client: KubeClient;
  readonly #clock: Clock;
  #reading: Reading | undefined;
  #last: Catalog | undefined;

  constructor(client: KubeClient, clock: Clock = systemClock) {
    this.#client = client;
    this.#clock = clock;
  }

  /**
   * The resource that `kind` means (see `find`); undefined when the server has no such kind, also after another
   * reading.
   */
  async resolve(kind: string, apiVersion?: string): Promise<Resource | undefined> {
    const reading = this.#read();
    const found = find(await reading.catalog, kind, apiVersion);
    if (found !== undefined || this.#clock.monotonic() - reading.at < LOOK_AGAIN_MS) return found;
    // Only if nobody else has begun a newer reading meanwhile.
    if (this.#reading === reading) this.invalidate();
    return find(await this.#read().catalog, kind, apiVersion);
  }

  /** Makes the next question read anew: a CRD or APIService was created, changed or deleted. */
  invalidate(): void {
    this.#reading = undefined;
  }

  /** `group/version` and `group/version/Kind` of everything served, as helm's `.Capabilities.APIVersions`; sorted. */
  async apiVersions(): Promise<readonly string[]> {
    return (await this.#read().catalog).apiVersions;
  }

  /** Every resource served, most preferred first. */
  async resources(): Promise<readonly Resource[]> {
    return (await this.#read().catalog).resources;
  }

  /** Group versions whose aggregated API server does not answer. */
  async unavailable(): Promise<readonly string[]> {
    return (await this.#read().catalog).unavailable;
  }

  #read(): Reading {
    if (this.#reading !== undefined) return this.#reading;
    const reading: Reading = { at: this.#clock.monotonic(), catalog: this.#ask() };
    this.#reading = reading;
    // The next question tries again.
    reading.catalog.catch(() => {
      if (this.#reading === reading) this.#reading = undefined;
    });
    return reading;
  }

  async #ask(): Promise<Catalog> {
    const [core, groups] = await Promise.all([this.#versions("/api"), this.#versions("/apis")]);
    this.#last = catalogOf([...core, ...groups], this.#last);
    return this.#last;
  }

  async #versions(path: string): Promise<GroupVersion[]> {
    const list = await this.#client.json<AggregatedList | CoreVersions | GroupList>({
      path,
      accept: AGGREGATED,
    });
    return list.kind === "APIGroupDiscoveryList" ? readAggregated(list) : walk(this.#client, list);
  }
}
