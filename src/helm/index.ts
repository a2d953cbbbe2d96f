export { CONFIRM_CRDS } from "./crds/breaking.ts";
export { CONFIRM_TAKEOVER, ExistingObjectsError } from "./objects/ownership.ts";
export { applyOwnCrds, checkCrdFiles as crdProblems, ensureCrds } from "./crds/ensure-crds.ts";
export { listOrphans as purgeList, type OrphanFacts as PurgeInput } from "./release/observed-releases.ts";
export { ForeignReleaseError, HelmError, RestoreError } from "./binary/helm-errors.ts";
export { Helm, type HelmRecorder } from "./binary/helm.ts";
export type { HelmHook, OnWait } from "./hook-watch.ts";
export { LABELS, managedByDigest } from "./release/revisions.ts";
export {
  listManifestObjects as bodiesOf,
  changedObjects,
  parseDocuments as documentsOf,
  listLastingRefs as lastingObjects,
} from "./manifest/manifest.ts";
export { manifestChecksum, resourceName, type ChangedObject, type ObjectRef } from "./manifest/manifest.ts";
export {
  MAX_RECORD_BYTES as LARGEST_RECORD,
  findManifestProblems as manifestProblems,
  computeRecordSize as recordSize,
} from "./manifest/manifest-problems.ts";
export {
  helmMetadata as helmMarks,
  readOwner as ownerOf,
  type Inspection,
  type RecordedObjects,
} from "./objects/live-objects.ts";
export { readYamlMap as readMap, UnusableChartError } from "./chart/chart.ts";
export { listEnabledCrdFiles as crdsInForce } from "./chart/sub-charts.ts";
export { renderOffline } from "./rendering.ts";
export { ReleaseStore } from "./release/release-store.ts";
export { locationsSecretName } from "./release/release-locations.ts";
export { readsEnabledModules } from "./chart/enabled-modules.ts";
export { findUnreadKeys as unreadKeys } from "./chart/unread-values.ts";
export { Releases, type ReleasesOptions } from "./release/releases.ts";
export {
  mayAdopt,
  determineReleaseOwner as releaseOwnerOf,
  type AdoptPolicy,
  type ReleaseOwner,
} from "./adoption.ts";
export type { CrdRequest } from "./crds/crd.ts";
export { decide, type DecisionInput } from "./decide.ts";
export type { HelmInput, ReconcileRequest, Release, ReleaseOutcome } from "./types.ts";
