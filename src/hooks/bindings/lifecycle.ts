/** Lifecycle bindings: they run at their point of a module's or the operator's lifecycle (docs/reference/hooks.md, "Lifecycle bindings"). */

import { LIFECYCLE, MAIN_QUEUE, type LifecycleBinding, type LifecycleName } from "../../base/model/index.ts";
import type { BindingKind } from "./kind.ts";

export type HookKind = "global" | "module";

/** The lifecycle bindings that hooks of a kind cannot have. */
export const MISPLACED_BINDINGS: Readonly<Record<HookKind, readonly LifecycleName[]>> = {
  global: ["beforeHelm", "afterHelm", "beforeDeleteHelm", "afterDeleteHelm"],
  module: ["beforeAll", "afterAll"],
};

const ORDER_SHAPE = { kind: "integer", fraction: true } as const;
/** shell-operator accepts only whole numbers for this key. */
const SHAPES = {
  ...Object.fromEntries(LIFECYCLE.map((name) => [name, ORDER_SHAPE])),
  onStartup: { kind: "integer" },
} as const;

export const lifecycle: BindingKind<LifecycleBinding> = {
  shapesByVersion: { v0: SHAPES, v1: SHAPES },
  read: (config, { queue }) =>
    LIFECYCLE.flatMap((name) => {
      const order = config[name];
      return typeof order === "number" ? [createLifecycleBinding(name, order, queue)] : [];
    }),
};

/** The binding of a hook whose configuration contains `NAME: ORDER`, such as `beforeHelm: 10`. */
export function createLifecycleBinding(
  name: LifecycleName,
  order: number,
  queue = MAIN_QUEUE,
): LifecycleBinding {
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
