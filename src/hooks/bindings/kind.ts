/**
 * The interface of a kind of binding, and the parts that their configurations share. A binding is an item of the configuration that a hook
 * prints, such as `kubernetes[0]`: what the hook runs for.
 */

import type { Binding, CommonBinding, Hook, HookConfig, JsonObject } from "../../base/model/index.ts";
import { BOOLEAN_SHAPE, STRING_SHAPE, type ValueOf, type Shape } from "./shape.ts";

/** Collects problems, or warnings, while a configuration is read. */
export type Complain = (problem: string) => void;

/** Input of `read`: where errors and warnings go, and the default queue. */
export interface BindingReadOptions {
  readonly complain: Complain;
  readonly warn: Complain;
  readonly queue: string;
}

/** One kind of binding; kinds.ts lists them all. */
export interface BindingKind<B extends Binding = Binding> {
  /** The configuration keys of such bindings and the shapes of their values, by configuration version. */
  readonly shapesByVersion: Readonly<Record<HookConfig["version"], Readonly<Record<string, Shape>>>>;
  /** Reads the bindings of a configuration whose shape is valid. */
  read(config: JsonObject, options: BindingReadOptions): readonly B[];
}

/** Triggers hooks for their bindings. */
export interface Triggers {
  /** Starts a hook's bindings. Idempotent; a new configuration replaces the old one. */
  enable(hook: Hook): void;
  disable(hook: Hook): void;
  close(): void;
}

/** Shapes of the fields that items of `schedule` and `kubernetes` share in version 1. */
export const ITEM_FIELDS = {
  name: STRING_SHAPE,
  allowFailure: BOOLEAN_SHAPE,
  queue: STRING_SHAPE,
  group: STRING_SHAPE,
  includeSnapshotsFrom: { kind: "array", of: STRING_SHAPE, min: 1 },
} as const satisfies Record<string, Shape>;

/** The shape of a list with at least one item. */
export function nonEmptyList(of: Shape): Shape {
  return { kind: "array", of, min: 1 };
}

/**
 * Reads the fields that all items have, with their defaults; `queue` is the default queue. `place` is the item's key and its index there.
 * `readBindings` adds the snapshots of the item's group later, when all bindings are known.
 */
export function readCommonBinding(
  raw: { readonly [Key in keyof typeof ITEM_FIELDS]?: ValueOf<(typeof ITEM_FIELDS)[Key]> | undefined },
  place: { readonly key: string; readonly index: number },
  queue: string,
): CommonBinding {
  const { key, index } = place;
  return {
    id: `${key}[${index}]`,
    name: raw.name || key,
    allowFailure: raw.allowFailure ?? false,
    queue: raw.queue || queue,
    group: raw.group || undefined,
    includeSnapshotsFrom: raw.includeSnapshotsFrom ?? [],
  };
}
