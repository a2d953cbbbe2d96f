/** An object of a followed release, and what the analyzers of the release know of it. */

import type { Backoff } from "../../lib/index.ts";
import type { ObjectDrift } from "./object-drift.ts";
import type { ReleaseObject } from "./release-object.ts";

/** What is known of an object that was missing once. */
export interface Absence {
  /** Back-off of its restores. */
  readonly backoff: Backoff;
  /** The server is not queried for it before this time. */
  notBefore: number;
  /** Confirmed by the server as missing: reported, or deferred until its back-off ends. */
  missing: "reported" | "deferred" | undefined;
  /** The object is known to have existed. */
  existed: boolean;
}

export interface FollowedObject {
  readonly key: string;
  object: ReleaseObject;
  /** Whether its health counts. */
  counts: boolean;
  /** It is a workload whose Pods are watched. */
  watchesPods: boolean;
  absence: Absence | undefined;
  drift: ObjectDrift | undefined;
  /** It has to be compared with its release. */
  isDriftDue: boolean;
}

/** The objects of a release, by `releaseObjectKey`. */
export type FollowedObjects = ReadonlyMap<string, FollowedObject>;

/** Evaluates the objects of a release. */
export interface Analyzer {
  /**
   * Returns when to check again (monotonic ms; Infinity = after the next event), or a promise while it waits for the
   * server: it is checked again when that resolves. `recheck` requests a check. Never throws.
   */
  check(objects: FollowedObjects, recheck: () => void): number | Promise<void>;
}
