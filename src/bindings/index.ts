export type { Complain, Source, SourceOptions } from "./kind.ts";
export {
  allBindings,
  bindingKeys,
  contextOf,
  hookActivation,
  makeSources,
  mayJoin,
  readBindings,
} from "./kinds.ts";
export * from "./kubernetes/kube-bindings.ts";
export * from "./kubernetes/kube-bindings-views.ts";
export type { BindingTimes } from "./kubernetes/monitor/monitor.ts";
export { MISPLACED, lifecycleBinding, type HookKind } from "./lifecycle.ts";
export { Items, JsonText, itemMembers, type Members, type SnapshotSource } from "./members.ts";
export { STRING } from "./item.ts";
export { mismatches, object } from "./shape.ts";
