/** What items of `schedule`, `kubernetes` and their like have in common. */

import { MAIN_QUEUE } from "../model/index.ts";
import type { CommonBinding } from "../model/index.ts";
import type { Shape } from "./shape.ts";

export const STRING = { kind: "string" } as const;
export const BOOLEAN = { kind: "boolean" } as const;
export const STRINGS = { kind: "array", of: STRING } as const;

/** The form of the fields that all items have in version 1. */
export const ITEM_FIELDS = {
  name: STRING,
  allowFailure: BOOLEAN,
  queue: STRING,
  group: STRING,
  includeSnapshotsFrom: { kind: "array", of: STRING, min: 1 },
} as const satisfies Record<string, Shape>;

/** An item that fits that form. */
export interface RawItem {
  name?: string;
  allowFailure?: boolean;
  queue?: string;
  group?: string;
  includeSnapshotsFrom?: string[];
}

/** A list of items. */
export function items(of: Shape): Shape {
  return { kind: "array", of, min: 1 };
}

/** What all items have; the names of their groups' snapshots are added when all bindings are known. */
export function itemBinding(raw: RawItem, key: string, index: number): CommonBinding {
  return {
    id: `${key}[${index}]`,
    name: raw.name || key,
    allowFailure: raw.allowFailure ?? false,
    queue: raw.queue || MAIN_QUEUE,
    group: raw.group || undefined,
    includeSnapshotsFrom: raw.includeSnapshotsFrom ?? [],
  };
}
