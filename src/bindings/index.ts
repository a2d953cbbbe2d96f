export { listBindings, allowsFailure, listBindingShapes, collapseGroups, buildContext } from "./kinds.ts";
export {
  NO_BINDINGS,
  getHookActivation,
  buildHookTask,
  isReviewBinding,
  createSources,
  readBindings,
} from "./kinds.ts";
export * from "./kubernetes/kube-bindings.ts";
export type { BindingTimes } from "./kubernetes/informer.ts";
export { MISPLACED_BINDINGS, createLifecycleBinding, type HookKind } from "./lifecycle.ts";
export { SnapshotList, JsonBytes, snapshotItemMembers } from "./kind.ts";
export type { Complain, ContextMembers, Snapshots, TriggerSource } from "./kind.ts";
export { STRING_SHAPE, findMismatches, objectShape, pruneToShape, type ValueOf } from "./shape.ts";
