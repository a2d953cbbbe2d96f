export type { Complain, Source, SourceOptions } from "./kind.ts";
export {
  allBindings,
  allowsFailure,
  bindingKeys,
  collapseGroups,
  contextOf,
  emitTo,
  hookActivation,
  hookTask,
  makeSources,
  readBindings,
} from "./kinds.ts";
export * from "./kubernetes/kube-bindings.ts";
export type { BindingTimes } from "./kubernetes/monitor.ts";
export { MISPLACED, lifecycleBinding, type HookKind } from "./lifecycle.ts";
export { Items, JsonText, itemMembers, type Members, type Snapshots } from "./kind.ts";
export { STRING, mismatches, object, type Fits } from "./shape.ts";
