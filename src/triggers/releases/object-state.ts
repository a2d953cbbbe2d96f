/** An object of a watched release: its keys, its state, and the interface of the analyzers that read and change the state. */

import { compileCel, type CelTest, type Backoff } from "../../lib/index.ts";
import type { ObjectDrift } from "./object-drift.ts";
import type { ObjectRef } from "../../helm/index.ts";
import type { Module } from "../../model/index.ts";

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

/** An object that a release contains, with the default namespace filled in. */
export interface ReleaseObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Ignored for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  /** A CEL expression for its health, in place of the rules for its status. */
  readonly check?: { readonly cel: string; readonly test: CelTest } | undefined;
}

/** Key of the watch that an object belongs to: one for each kind, namespace and health check. */
export function toKindKey({ apiVersion, kind, namespace, check }: ReleaseObject): string {
  return `${apiVersion}/${kind}/${namespace}${check === undefined ? "" : ` ${check.cel}`}`;
}

/** Key of an object among those of all releases. */
export function toReleaseObjectKey(object: ReleaseObject): string {
  return `${toKindKey(object)}/${object.name}`;
}

/** Display name: `Deployment kube-system/web`, or `ClusterRole web`. */
export function titleOf({ kind, namespace, name }: Omit<ObjectRef, "apiVersion">): string {
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

/**
 * Adds the default namespace and the health check of its kind to each object. Leaves out checks that do not compile: their
 * module is Invalid.
 */
export async function toReleaseObjects(
  objects: readonly ObjectRef[],
  namespace: string,
  checks: NonNullable<Module["health"]>["checks"] = [],
): Promise<ReleaseObject[]> {
  const compilations = checks.map(async (check) => ({ ...check, test: await compileCel(check.cel) }));
  const settled = await Promise.allSettled(compilations);
  const compiledChecks = settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  return objects.map((object) => ({
    ...object,
    namespace: object.namespace ?? namespace,
    check: compiledChecks.find(
      ({ apiVersion, kind }) => apiVersion === object.apiVersion && kind === object.kind,
    ),
  }));
}
