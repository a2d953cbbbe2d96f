/** Lists resources page by page. */

import { breathe } from "../lib/index.ts";
import type { JsonObject } from "../model/index.ts";
import type { KubeClient, Sized } from "./client/client.ts";
import { isGone } from "./api-errors.ts";
import type { ResourceType } from "./discovery/resources.ts";
import { pathOf } from "./discovery/resources.ts";

/** What to list. */
export interface ListSpec {
  readonly resource: ResourceType;
  /** Absent: all namespaces. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** Only metadata (PartialObjectMetadata). */
  readonly metadataOnly?: boolean | undefined;
  /** Objects per page; default 500. */
  readonly pageSize?: number;
  /** Lists as of a version at least that new from the server's cache; absent: the newest (quorum read). */
  readonly resourceVersion?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** One page. `restart`: the server expired the list meanwhile (410), so drop what came before; this is page one. */
export interface ListPage<T = JsonObject> {
  readonly items: readonly T[];
  readonly resourceVersion: string;
  readonly restart: boolean;
  /** No page follows. */
  readonly last: boolean;
}

/** The `Accept` header: with `metadataOnly` the server leaves out the rest, where it can. */
export function acceptOf(
  { metadataOnly }: { readonly metadataOnly?: boolean | undefined },
  suffix: "List" | "",
): string {
  if (metadataOnly !== true) return "application/json";
  return `application/json;as=PartialObjectMetadata${suffix};g=meta.k8s.io;v=v1,application/json`;
}

interface RawList<T> {
  readonly items?: readonly T[] | null;
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string };
}

/** Objects asked for at once. */
export const PAGE_SIZE = 500;
/** A page of more text than this blocks the event loop for too long while it is parsed. */
const PAGE_BYTES = 4_000_000;
const LIST_TIMEOUT_MS = 60_000;
const MOST_RESTARTS = 5;

/**
 * Lists page by page. A list that the server expires between pages starts over, with `restart` on its first page.
 * Pages of large objects get shorter. Errors: ApiError (also 410 when it comes again and again), ConnectionError.
 */
export async function* listPages<T = JsonObject>(
  client: KubeClient,
  spec: ListSpec,
): AsyncGenerator<ListPage<T>> {
  let at: Cursor = { limit: spec.pageSize ?? PAGE_SIZE, token: undefined, restarts: 0, restart: false };
  do {
    const answer = await read<T>(client, spec, at);
    if (answer === undefined) {
      at = { ...at, token: undefined, restart: true, restarts: at.restarts + 1 };
      continue;
    }
    const { items, metadata } = answer.value;
    const token = metadata?.continue || undefined;
    const resourceVersion = metadata?.resourceVersion ?? "";
    yield { items: items ?? [], resourceVersion, restart: at.restart, last: token === undefined };
    at = { ...at, token, restart: false, limit: nextLimit(at.limit, answer.bytes) };
    await breathe();
  } while (at.token !== undefined || at.restart);
}

interface Cursor {
  readonly limit: number;
  readonly token: string | undefined;
  readonly restarts: number;
  readonly restart: boolean;
}

/** One page; undefined when the server expired the list. */
async function read<T>(
  client: KubeClient,
  spec: ListSpec,
  at: Cursor,
): Promise<Sized<RawList<T>> | undefined> {
  try {
    return await client.sized<RawList<T>>(request(spec, at.limit, at.token));
  } catch (error) {
    if (at.token === undefined || !isGone(error) || at.restarts >= MOST_RESTARTS) throw error;
    return undefined;
  }
}

function request(
  spec: ListSpec,
  limit: number,
  token: string | undefined,
): Parameters<KubeClient["sized"]>[0] {
  const { labelSelector, fieldSelector, resourceVersion } = spec;
  return {
    path: pathOf(spec.resource, { namespace: spec.namespace }),
    // A continue token carries its own version; the server refuses both together.
    query: {
      limit,
      labelSelector,
      fieldSelector,
      ...(token === undefined ? { resourceVersion } : { continue: token }),
    },
    accept: acceptOf(spec, "List"),
    signal: spec.signal,
    timeoutMs: LIST_TIMEOUT_MS,
  };
}

function nextLimit(limit: number, bytes: number): number {
  return bytes > PAGE_BYTES ? Math.max(1, Math.floor((limit * PAGE_BYTES) / bytes)) : limit;
}
