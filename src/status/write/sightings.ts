/** What watches report of the operator's own objects. */

import type { MirroredObject, Identity } from "./mirrored.ts";
import { type LiveObject, isNewer, liveAfter } from "./live.ts";
import type { AddonObject } from "../models/kinds.ts";

/** What a watch reported of an object. */
export interface Sighting {
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

  #newest({ kind, name }: Identity, seen: Sighting | undefined): Sighting | undefined {
    const list = this.#lists.get(kind);
    if (list === undefined || list.names.has(name)) return seen;
    return seen !== undefined && isNewer(seen.version, list.version)
      ? seen
      : { object: undefined, version: list.version };
  }
}
