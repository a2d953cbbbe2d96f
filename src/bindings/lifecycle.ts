/** Lifecycle bindings: they run at their point of a module's or the operator's lifecycle (docs/reference/hooks.md, "Lifecycle bindings"). */

import { LIFECYCLE, MAIN_QUEUE, type LifecycleBinding, type LifecycleName } from "../model/index.ts";
import { snapshotsByName, type BindingKind } from "./kind.ts";

export type HookKind = "global" | "module";

/** The lifecycle bindings that hooks of a kind cannot have. */
export const MISPLACED_BINDINGS: Readonly<Record<HookKind, readonly LifecycleName[]>> = {
  global: ["beforeHelm", "afterHelm", "beforeDeleteHelm", "afterDeleteHelm"],
  module: ["beforeAll", "afterAll"],
};

const ORDER = { kind: "integer", fraction: true } as const;
/** shell-operator accepts only whole numbers for this key. */
const KEYS = {
  ...Object.fromEntries(LIFECYCLE.map((name) => [name, ORDER])),
  onStartup: { kind: "integer" },
} as const;

export const lifecycle: BindingKind<LifecycleBinding> = {
  keys: { v0: KEYS, v1: KEYS },
  read: (config, { queue }) =>
    LIFECYCLE.flatMap((name) => {
      const order = config[name];
      return typeof order === "number" ? [lifecycleBinding(name, order, queue)] : [];
    }),
  context: ({ binding: { name } }, { bindings }, snapshots) =>
    name === "onStartup"
      ? {}
      : {
          snapshots: snapshotsByName(
            bindings.kubernetes.map((each) => each.name),
            snapshots,
          ),
        },
  mayMerge: () => false,
  activation: ({ name }) => name,
};

/** The lifecycle binding of a hook that names this order. */
export function lifecycleBinding(name: LifecycleName, order: number, queue = MAIN_QUEUE): LifecycleBinding {
  return {
    type: "lifecycle",
    id: name,
    name,
    order,
    allowFailure: false,
    queue,
    group: undefined,
    includeSnapshotsFrom: [],
  };
}
