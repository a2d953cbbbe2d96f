export { CONFIRM_CRDS } from "./crds/breaking.ts";
export { applyOwnCrds, ensureCrds } from "./crds/ensure-crds.ts";
export { purgeList, type PurgeInput } from "./release/observed-releases.ts";
export { decide, withoutHelm, type DecisionInput } from "./decide.ts";
export { ForeignReleaseError, HelmError, RestoreError } from "./binary/helm-errors.ts";
export { Helm, type HelmRecorder } from "./binary/helm.ts";
export type { HelmHook, OnWait } from "./reconcile.ts";
export { LABELS, managedByDigest } from "./release/revisions.ts";
export {
  bodiesOf,
  documentsOf,
  lastingObjects,
  manifestChecksum,
  nameOf,
  type ObjectRef,
} from "./manifest/manifest.ts";
export { changedObjects, type ChangedObject } from "./manifest/manifest-diff.ts";
export { LARGEST_RECORD, manifestFaults, recordSize } from "./manifest/manifest-faults.ts";
export { helmMarks, ownerOf, type Inspection, type RecordedObjects } from "./live-objects.ts";
export { readMap } from "./chart/chart.ts";
export { crdsInForce } from "./chart/sub-charts.ts";
export { renderOffline } from "./rendering.ts";
export { ReleaseStore } from "./release/release-store.ts";
export { unreadKeys } from "./chart/unread-values.ts";
export { retriesOf } from "./rollback.ts";
export { Releases, type ReleasesOptions } from "./release/releases.ts";
export { mayAdopt, originOf, type AdoptPolicy, type Origin, type Release } from "./examine.ts";
export type { CrdRequest, HelmInput, ReconcileRequest, ReleaseOutcome } from "./examine.ts";
