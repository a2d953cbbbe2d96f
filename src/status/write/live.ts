/** What is known of an object on the server, from calls and from watches. */

import { type OwnerReference, isLater } from "../../kube/index.ts";
import { digestJson } from "../../lib/index.ts";
import { objectsIn, textOf, type JsonObject } from "../../model/index.ts";
import type { AddonObject, Condition } from "../models/kinds.ts";
import type { MirroredObject, Identity } from "./mirrored.ts";

/** What is known of an object on the server: enough to write differences and to notice foreign objects. */
export interface LiveObject {
  readonly uid: string;
  readonly generation: number;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly ownerUid: string | undefined;
  /** Owners that others have given it. */
  readonly otherOwners: readonly OwnerReference[];
  /** It is being deleted, and finalizers keep it. */
  readonly isGoing: boolean;
  readonly spec: JsonObject | undefined;
  readonly status: JsonObject | undefined;
  /** Digest of the status as the server stored it, which may be less than what was sent. */
  readonly statusDigest: string;
  /** Paths of the status that the server dropped when it stored it. */
  readonly dropped?: ReadonlySet<string>;
}

/** An object as an API call or a watch gave it. */
export function liveFrom(object: AddonObject): LiveObject {
  const { metadata } = object;
  const { ownerReferences = [] } = metadata;
  const status = object.status as unknown as JsonObject | undefined;
  return {
    uid: metadata.uid ?? "",
    generation: metadata.generation ?? 1,
    resourceVersion: metadata.resourceVersion ?? "",
    labels: metadata.labels ?? {},
    ownerUid: ownerReferences.find(isOperator)?.uid,
    otherOwners: ownerReferences.filter((owner) => !isOperator(owner)),
    isGoing: metadata.deletionTimestamp !== undefined,
    spec: object.spec as JsonObject | undefined,
    status,
    statusDigest: digestJson(status),
  };
}

function isOperator({ kind }: OwnerReference): boolean {
  return kind === "AddonOperator";
}

/** As {@link liveFrom}; for a status that is known already, also what the server dropped of it. */
function liveAfter(before: LiveObject | undefined, object: AddonObject): LiveObject {
  const seen = liveFrom(object);
  if (before?.uid !== seen.uid || before.statusDigest !== seen.statusDigest) return seen;
  return { ...before, ...seen, status: before.status };
}

const NUMBER = /^\d+$/;

/** Order of two resourceVersions of one kind; what is not a number counts as newer, to be safe. */
function isNewer(a: string, b: string): boolean {
  if (!NUMBER.test(a) || !NUMBER.test(b)) return a !== b;
  return isLater(a, b);
}

/** What a watch reported of an object. */
export interface Observed {
  /** undefined = it is gone. */
  readonly object: AddonObject | undefined;
  /** The version from which on that is so. */
  readonly version: string;
}

/** All objects of a kind, as a watch listed them. */
export interface Listed {
  readonly names: ReadonlySet<string>;
  /** The version that the list is true for. */
  readonly version: string;
}

/**
 * The last lists of watches: an object that is not in the list, and not newer, is gone, even if no watch reported
 * it.
 */
export class Lists {
  readonly #lists = new Map<Identity["kind"], Listed>();

  add(kind: Identity["kind"], listed: Listed): void {
    this.#lists.set(kind, listed);
  }

  /** What is known of an object after what watches reported; the same value when that is nothing newer. */
  liveAfter({ id, live, seen }: MirroredObject): LiveObject | undefined {
    const news = this.#newest(id, seen);
    if (news === undefined) return live;
    if (live !== undefined && !isNewer(news.version, live.resourceVersion)) return live;
    return news.object === undefined ? undefined : liveAfter(live, news.object);
  }

  #newest({ kind, name }: Identity, seen: Observed | undefined): Observed | undefined {
    const list = this.#lists.get(kind);
    if (list === undefined || list.names.has(name)) return seen;
    return seen !== undefined && isNewer(seen.version, list.version)
      ? seen
      : { object: undefined, version: list.version };
  }
}

/**
 * A status with the generation it speaks of, there and in each condition. A condition whose status is on the server
 * already has had it since then, whatever came and went unwritten, as at a restart.
 */
export function stamp(
  status: { readonly conditions: readonly Condition[] },
  generation: number,
  live?: JsonObject,
): JsonObject {
  const shown = objectsIn(live?.["conditions"]);
  const stamped = {
    ...status,
    observedGeneration: generation,
    conditions: status.conditions.map((condition) => {
      const before = shown.find(({ type }) => type === condition.type);
      const since =
        before?.["status"] === condition.status ? textOf(before["lastTransitionTime"]) : undefined;
      const lastTransitionTime = since ?? condition.lastTransitionTime;
      return { ...condition, lastTransitionTime, observedGeneration: generation };
    }),
  };
  return stamped;
}
