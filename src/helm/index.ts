export { ensureCrds, type CrdTools } from "./crds.ts";
export { mayAdopt, originOf, type AdoptPolicy, type Origin } from "./adopt.ts";
export { decide, type Decision, type Evidence } from "./decide.ts";
export { ForeignReleaseError, HelmError, RestoreError } from "./errors.ts";
export { Helm, type HelmOptions, type HelmWitness } from "./helm.ts";
export type { HelmHook, OnWait } from "./hook-watch.ts";
export { LABELS, managedByDigest } from "./labels.ts";
export { documentsOf, lastingObjects, manifestChecksum, nameOf, type ObjectRef } from "./manifest.ts";
export { manifestFaults } from "./manifest-faults.ts";
export { ownerOf } from "./outliving.ts";
export { applyOwnCrds } from "./own-crds.ts";
export { purgeList, type PurgeInput, type PurgePolicy } from "./purge.ts";
export { manifestDiff } from "./manifest-diff.ts";
export { type Preview, renderOffline } from "./preview.ts";
export { ReleaseStore, type ReleaseMeta, type Watching } from "./release-store.ts";
export { unreadKeys } from "./unread-values.ts";
export {
  Releases,
  type ReconcileRequest,
  type Release,
  type ReleaseOutcome,
  type ReleasesOptions,
} from "./releases.ts";
