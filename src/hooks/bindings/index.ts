export { NO_BINDINGS, createSources, listBindings, listBindingShapes, readBindings } from "./kinds.ts";
export * from "./kubernetes/kube-bindings.ts";
export { openWhilePermitted } from "./kubernetes/permission.ts";
export type { BindingTimes } from "./kubernetes/informer.ts";
export { MISPLACED_BINDINGS, createLifecycleBinding, type HookKind } from "./lifecycle.ts";
export type { Complain, Triggers } from "./kind.ts";
export { STRING_SHAPE, findMismatches, objectShape, pruneToShape, type ValueOf } from "./shape.ts";
export {
  allowsFailure,
  buildHookTask,
  collapseGroups,
  getHookActivation,
  isReviewBinding,
} from "./trigger.ts";
export { renderContext, type Snapshots } from "./trigger.ts";
