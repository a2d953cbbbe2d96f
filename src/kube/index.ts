export { Accounts, type AccountSettings } from "./accounts/accounts.ts";
export { openAccountKubeconfig, PrivateKubeconfig } from "./accounts/child-kubeconfigs.ts";
export { RunTokens } from "./accounts/tokens.ts";
export * from "./client/client.ts";
export * from "./client/kubeconfig.ts";
export * from "./client/first-contact.ts";
export * from "./client/verbs.ts";
export type { ApiRequest } from "./client/request.ts";
export { Discovery, remedyOf, type GroupVersion } from "./discovery/discovery.ts";
export { findServedVersion } from "./discovery/served-version.ts";
export { KindFinder, MissingKindError } from "./discovery/kind-finder.ts";
export * from "./converted-crds.ts";
export * from "./resources.ts";
export {
  ApiError,
  ConnectionError,
  OversizeError,
  ignoreNotFound,
  isAlreadyExists,
  isConflict,
  isForbidden,
  isNotFound,
  retryConflicts,
} from "./api-errors.ts";
export { formatIdentity, readOwnIdentity, type LeaderIdentity } from "./leader/identity.ts";
export { FOLLOWER_HEADER, type Address, type LeaderAnswer } from "./leader/leader-port.ts";
export { Leadership, leaseNameOf } from "./leader/leadership.ts";
export * from "./leader/lease.ts";
export { RedactionKey, redactionSecretName } from "./redaction-key.ts";
export * from "./permissions.ts";
export { listObjects } from "./watch/list.ts";
export type { Subscription, WatchConsumer } from "./watch/consumer.ts";
export { WatchHub } from "./watch/hub.ts";
export { ObjectStore, toStoredObject, toStoredVersion, type StoredObject } from "./watch/store.ts";
export {
  EARLIEST_VERSION,
  isLater,
  formatLabelSelector,
  objectKey,
  splitKey,
  toNamedSpec,
} from "./watch/watch-spec.ts";
export type { ObjectKey, WatchSpec, WatchedObject } from "./watch/watch-spec.ts";
