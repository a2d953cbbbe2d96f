export { CONFIRM_CRDS } from "./crds/breaking.ts";
export { ensureCrds } from "./crds/ensure-crds.ts";
export { applyOwnCrds } from "./crds/own-crds.ts";
export {
  mayAdopt,
  originOf,
  purgeList,
  type AdoptPolicy,
  type Origin,
  type PurgeInput,
} from "./ownership/adopt.ts";
export { decide, withoutHelm, type DecisionInput } from "./decide.ts";
export { ForeignReleaseError, HelmError, RestoreError } from "./binary/helm-errors.ts";
export { Helm } from "./binary/helm.ts";
export type { HelmRecorder } from "./binary/helm-process.ts";
export type { HelmHook, OnWait } from "./binary/hook-watch.ts";
export { LABELS, managedByDigest } from "./release/labels.ts";
export {
  bodiesOf,
  documentsOf,
  lastingObjects,
  manifestChecksum,
  nameOf,
  type ObjectRef,
} from "./manifest/manifest.ts";
export { changedObjects } from "./manifest/manifest-diff.ts";
export type { ChangedObject } from "./manifest/manifest-diff.ts";
export { manifestFaults } from "./manifest/manifest-faults.ts";
export { helmMarks, ownerOf } from "./ownership/outliving.ts";
export { readMap } from "./chart/chart-files.ts";
export { crdsInForce } from "./chart/sub-charts.ts";
export { renderOffline } from "./rendering.ts";
export type { Inspection, RecordedObjects } from "./recorded-objects.ts";
export { LARGEST_RECORD, recordSize } from "./release/record-size.ts";
export { ReleaseStore } from "./release/release-store.ts";
export { unreadKeys } from "./chart/unread-values.ts";
export { retriesOf } from "./rollback/memory.ts";
export { Releases } from "./release/releases.ts";
export type { ReleasesOptions } from "./release/releases.ts";
export type { CrdRequest, HelmInput, ReconcileRequest, ReleaseOutcome } from "./request.ts";
export type { Release } from "./release/observed-releases.ts";
