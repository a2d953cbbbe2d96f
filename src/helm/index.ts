export { ensureCrds } from "./crds.ts";
export { mayAdopt, originOf, type AdoptPolicy, type Origin } from "./adopt.ts";
export { decide, type Evidence } from "./decide.ts";
export { ForeignReleaseError, HelmError, RestoreError } from "./helm-errors.ts";
export { Helm, type HelmWitness } from "./helm.ts";
export type { HelmHook, OnWait } from "./hook-watch.ts";
export { LABELS, managedByDigest } from "./labels.ts";
export {
  bodiesOf,
  documentsOf,
  lastingObjects,
  manifestChecksum,
  nameOf,
  type ObjectRef,
} from "./manifest.ts";
export { manifestFaults } from "./manifest-faults.ts";
export { ownerOf } from "./outliving.ts";
export { applyOwnCrds } from "./own-crds.ts";
export { purgeList, type PurgeInput } from "./purge-list.ts";
export { renderOffline } from "./preview.ts";
export { ReleaseStore } from "./release-store.ts";
export { unreadKeys } from "./unread-values.ts";
export { Releases, type Release, type ReleaseOutcome, type ReleasesOptions } from "./releases.ts";
