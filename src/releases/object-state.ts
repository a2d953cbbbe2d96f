/**
 * The objects of a watched release: their keys, and the state of each, which the analyzers of the release read and change. Drift: fields that helm
 * set and others changed. A check compares an object with its release; a repair writes the fields back. Times are of the monotonic clock (ms).
 */

import { Backoff, compileCel, type CelTest } from "../base/index.ts";
import type { ObjectRef } from "../helm/index.ts";
import { mayHaveAccount, type Module } from "../base/model/index.ts";
import type { Comparison, DriftedField, FieldManagers } from "../kube/drift/index.ts";
import { isLater } from "../kube/index.ts";

/** The state of an object that is or was missing, for restoring it (self-heal). */
export interface Absence {
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
  readonly guard?: ReadGuard | undefined;
}

/**
 * Limits what the operator, with its own permissions, reads for a module with an account: of the objects outside the namespace of the release
 * only those that the account may get. People with access to that namespace can add any object to the release record.
 */
interface ReadGuard {
  readonly module: string;
  /** The namespace of the release. */
  readonly namespace: string;
}

/** Key of the watch that an object belongs to: one for each kind, namespace and health check, and for each module with an account. */
export function toKindKey({ apiVersion, kind, namespace, check, guard }: ReleaseObject): string {
  const owner = guard === undefined ? "" : ` ${guard.module}`;
  return `${apiVersion}/${kind}/${namespace}${owner}${check === undefined ? "" : ` ${check.cel}`}`;
}

/** Key of an object among those of all releases. */
export function toReleaseObjectKey(object: ReleaseObject): string {
  return `${toKindKey(object)}/${object.name}`;
}

/** Display name: `Deployment kube-system/web`, or `ClusterRole web`. */
export function titleOf({ kind, namespace, name }: Omit<ObjectRef, "apiVersion">): string {
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

/** Adds the default namespace and the health check of its kind to each object. Leaves out checks that do not compile: their module is Invalid. */
export async function toReleaseObjects(
  objects: readonly ObjectRef[],
  namespace: string,
  module: Module | undefined,
): Promise<ReleaseObject[]> {
  const { checks = [] } = module?.health ?? {};
  const guard = module && mayHaveAccount(module) ? { module: module.name, namespace } : undefined;
  const compilations = checks.map(async (check) => ({ ...check, test: await compileCel(check.cel) }));
  const settled = await Promise.allSettled(compilations);
  const compiledChecks = settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  return objects.map((object) => ({
    ...object,
    namespace: object.namespace ?? namespace,
    guard,
    check: compiledChecks.find(
      ({ apiVersion, kind }) => apiVersion === object.apiVersion && kind === object.kind,
    ),
  }));
}

/** Least time between two checks of an object that keeps changing. */
const MIN_CHECK_INTERVAL_MS = 10_000;
/** Least time between two repairs of an object that another field manager keeps changing. */
const MIN_REPAIR_INTERVAL_MS = 600_000;
/** Number of checks and repairs in a row without such a delay. */
const TRIES_WITHOUT_DELAY = 10;

/** The state of drift detection for one object. */
export interface ObjectDrift {
  fieldManagers: FieldManagers;
  /** Others manage fields that helm set: each further write by others is checked. */
  mustCheckEveryWrite: boolean;
  /** The fields that differ from the release now. */
  fields: readonly DriftedField[];
  /** The repair waits for its back-off, since others changed the object repeatedly. */
  isRepairDelayed: boolean;
  checkError: string | undefined;
  /** Parts of the object that the last check did not compare, with the reason. */
  notCompared: string | undefined;
  checkBackoff: Backoff;
  repairBackoff: Backoff;
  repairedAt: number;
  /** A contest: another field manager reverts each repair. `fields` are reported until `endsAt`, even right after a repair. */
  contest: { readonly fields: readonly DriftedField[]; readonly endsAt: number } | undefined;
}

/**
 * Whether others wrote to an object since the last check in a way that may be drift: decided by digests of `managedFields` (fields of helm, fields
 * of others, all writes of others), so that controllers that write the status all the time cause no requests.
 */
export function wasWrittenByOthers(drift: ObjectDrift, current: FieldManagers): boolean {
  const { fieldManagers: lastChecked, mustCheckEveryWrite } = drift;
  // The last check may have read a newer version than the watch has.
  if (!isLater(current.version, lastChecked.version)) return false;
  return (
    current.helm !== lastChecked.helm ||
    current.others !== lastChecked.others ||
    (mustCheckEveryWrite && current.otherWrites !== lastChecked.otherWrites)
  );
}

/**
 * Records a repair. Repeated repairs are a contest with a field manager that undoes them. It ends when a repair lasts twice as long as the one
 * before. Until then the fields are reported: they would otherwise disappear from the status after each repair and come back a moment later.
 */
export function recordRepair(drift: ObjectDrift, fields: readonly DriftedField[], now: number): void {
  const requiredLastingMs = Math.max(2 * (now - drift.repairedAt), MIN_CHECK_INTERVAL_MS);
  drift.contest = drift.repairBackoff.isRepeated(now)
    ? { fields, endsAt: now + requiredLastingMs }
    : undefined;
  drift.repairBackoff.record(now);
  drift.repairedAt = now;
}

/** Returns the fields to report: those that differ now, or that others change after each repair. */
export function selectReportedFields({ fields, contest }: ObjectDrift): readonly DriftedField[] {
  return fields.length > 0 ? fields : (contest?.fields ?? []);
}

/** Returns when the object may be checked again: after the back-off of checks and, if a repair waits, that of repairs. */
export function getNextCheckTime({ checkBackoff, repairBackoff, isRepairDelayed }: ObjectDrift): number {
  return isRepairDelayed ? Math.max(checkBackoff.dueAt, repairBackoff.dueAt) : checkBackoff.dueAt;
}

interface CheckResult extends Comparison {
  readonly notCompared?: string | undefined;
}

/**
 * Records the result of a check; true if it found drift that was not reported before. `isShared`: another manager owns a field that helm sets, so
 * each of its later writes must be checked.
 */
export function recordCheck(drift: ObjectDrift, comparison: CheckResult | undefined, now: number): boolean {
  const { fields = [], isShared = false } = comparison ?? {};
  const isNewDrift = fields.length > 0 && JSON.stringify(drift.fields) !== JSON.stringify(fields);
  drift.checkBackoff.record(now);
  drift.checkError = undefined;
  drift.notCompared = comparison?.notCompared;
  drift.isRepairDelayed = false;
  drift.mustCheckEveryWrite = isShared || fields.length > 0;
  drift.fields = fields;
  return isNewDrift;
}

/** The state of an object that was not checked yet; its last writes were by these field managers. */
export function newObjectDrift(fieldManagers: FieldManagers): ObjectDrift {
  return {
    fieldManagers,
    mustCheckEveryWrite: false,
    fields: [],
    isRepairDelayed: false,
    checkError: undefined,
    notCompared: undefined,
    checkBackoff: new Backoff(MIN_CHECK_INTERVAL_MS, TRIES_WITHOUT_DELAY),
    repairBackoff: new Backoff(MIN_REPAIR_INTERVAL_MS, TRIES_WITHOUT_DELAY),
    repairedAt: -Infinity,
    contest: undefined,
  };
}
