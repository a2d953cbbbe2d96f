export {
  allBindings,
  allowsFailure,
  bindingKeys,
  collapseGroups,
  buildContext,
  hookActivation,
  hookTask,
  isReviewBinding,
  makeSources,
  readBindings,
} from "./kinds.ts";
export * from "./kubernetes/kube-bindings.ts";
export type { BindingTimes } from "./kubernetes/monitor.ts";
export { MISPLACED_BINDINGS, lifecycleBinding, type HookKind } from "./lifecycle.ts";
export { Items, JsonBytes, itemMembers } from "./kind.ts";
export type { Complain, Members, Snapshots, Source } from "./kind.ts";
export { STRING, findMismatches, object, prune, type ValueOf } from "./shape.ts";
