/** The Lease as an object of the API: read, made, and replaced in the version that was seen last. */

import { isNotFound } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { create, get, replace } from "../client/verbs.ts";
import { LEASES } from "../discovery/resources.ts";
import type { LeaseObject as Live, LeaseSpec } from "../objects.ts";

/** How long a request may take, and what ends it. */
export interface Limits {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs: number;
}

interface Place {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly name: string;
}

/** One Lease; of two who write to the same version of it, one gets a conflict. */
export class LeaseObject {
  readonly #place: Place;
  #seen: Live | undefined;

  constructor(place: Place) {
    this.#place = place;
  }

  /** What it says; undefined = there is none. */
  async read(limits: Limits): Promise<LeaseSpec | undefined> {
    const { client, ...target } = this.#place;
    try {
      this.#seen = await get<Live>(client, { resource: LEASES, ...target }, limits);
    } catch (error) {
      if (!isNotFound(error)) throw error;
      this.#seen = undefined;
    }
    return this.#seen && (this.#seen.spec ?? {});
  }

  async create(spec: LeaseSpec, limits: Limits): Promise<void> {
    const { client, namespace, name } = this.#place;
    const metadata = { name, namespace };
    const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
    this.#seen = await create<Live>(client, { resource: LEASES, namespace }, { ...limits, body });
  }

  /** Replaces what was seen last; a conflict means that there is a newer one. */
  async write(next: (spec: LeaseSpec | undefined) => LeaseSpec, limits: Limits): Promise<void> {
    const { client, namespace, name } = this.#place;
    if (this.#seen === undefined) return;
    const body = { ...this.#seen, spec: next(this.#seen.spec) };
    this.#seen = await replace<Live>(client, { resource: LEASES, namespace, name }, { ...limits, body });
  }
}
