/** The state of one object of a watched release, and the interface of the analyzers that read and change it. */

import type { Backoff } from "../../lib/index.ts";
import type { ObjectDrift } from "./object-drift.ts";
import type { ReleaseObject } from "./release-object.ts";

/** The state of an object that is or was missing, for restoring it (self-heal). */
export interface Absence {
  /** Back-off of the restores of the object. */
  readonly backoff: Backoff;
  /** The server is not queried for the object before this time (monotonic ms). */
  queryNotBefore: number;
  /** Set when the server confirmed that the object is missing: reported, or deferred until the back-off ends. */
  missingStatus: "reported" | "deferred" | undefined;
  /** The object is known to have existed. */
  hasExisted: boolean;
}

/** An object of a watched release, and what the analyzers of the release know about it. */
export interface ObjectState {
  readonly key: string;
  object: ReleaseObject;
  /** Whether the health of the object counts for the health of the release. */
  countsForHealth: boolean;
  /** The object is a workload whose Pods are watched. */
  hasPodWatch: boolean;
  absence: Absence | undefined;
  drift: ObjectDrift | undefined;
  /** The object has to be compared with its release. */
  isDriftCheckDue: boolean;
}

/** The objects of a release, by `releaseObjectKey`. */
export type ObjectStates = ReadonlyMap<string, ObjectState>;

/** Evaluates the objects of a release. */
export interface Analyzer {
  /**
   * Returns when to check again (monotonic ms; Infinity = after the next event), or a promise while it waits for the
   * server: it is checked again when that resolves. `recheck` requests a check. Never throws.
   */
  check(objects: ObjectStates, recheck: () => void): number | Promise<void>;
}
