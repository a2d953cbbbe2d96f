export * from "./client/client.ts";
export * from "./client/kubeconfig.ts";
export * from "./client/first-contact.ts";
export {
  applyPatch,
  create,
  get,
  getMetadata,
  jsonPatch,
  listMetadata,
  mergePatch,
  remove,
  replace,
} from "./client/request.ts";
export type { ApiRequest, Propagation, Target } from "./client/request.ts";
export { AGGREGATED, Discovery, readAggregated, type AggregatedList } from "./discovery/discovery.ts";
export { KindFinder } from "./discovery/kind-finder.ts";
export * from "./resources.ts";
export {
  ApiError,
  ConnectionError,
  ignoreNotFound,
  isAlreadyExists,
  isConflict,
  isForbidden,
  isNotFound,
  retryConflicts,
} from "./api-errors.ts";
export { FOLLOWER_HEADER, type LeaderAnswer } from "./leader/ask-leader.ts";
export { Leadership } from "./leader/leadership.ts";
export { formatIdentity, ownIdentity, type Identity } from "./leader/lease-object.ts";
export * from "./leader/lease.ts";
export { PrivateKubeconfig } from "./private-kubeconfig.ts";
export { RedactionKey, redactionSecretName } from "./redaction-key.ts";
export * from "./rights.ts";
export { listObjects } from "./watch/stream.ts";
export { WatchHub, type Subscription, type WatchConsumer } from "./watch/hub.ts";
export { EARLIEST, isLater, labelSelectorText, objectKey, splitKey } from "./watch/watch-spec.ts";
export type { WatchSpec, WatchedObject } from "./watch/watch-spec.ts";
