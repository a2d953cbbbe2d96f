/** Why something is owed: as data, which is what is decided from, and in words. */

import { LIFECYCLE } from "./binding.ts";
import type { Binding, LifecycleName } from "./binding.ts";

/** What made a run or a reload due. */
export type Cause =
  | { readonly kind: keyof typeof WORDS }
  /** A hook changed values: of the life cycle, or for an event of its binding. */
  | { readonly kind: "hook"; readonly by: LifecycleName | Exclude<Binding["type"], "lifecycle"> }
  | { readonly kind: "absent"; readonly object: string }
  | { readonly kind: "release"; readonly status: string };

const WORDS = {
  "start-up": "start-up",
  requested: "requested",
  confirmed: "a removal was confirmed",
  /** Globals or flags. */
  config: "ConfigMap changed",
  section: "ConfigMap section changed",
  "own-config": "hook changed the ConfigMap",
  globals: "global values changed",
  values: "module values changed",
  files: "files changed",
  "second-look": "second look at the directories",
  "first-run": "first run",
  /** Of a run that waited for it. */
  required: "what it requires is there",
  unhealthy: "release is not healthy",
  disabled: "disabled",
} as const;

/** A cause in words. */
export function describeCause(cause: Cause): string {
  if (cause.kind === "hook") {
    const isEvent = !LIFECYCLE.some((name) => name === cause.by);
    return `${cause.by} ${isEvent ? "hook" : "hooks"} changed values`;
  }
  if (cause.kind === "absent") return `absent ${cause.object}`;
  if (cause.kind === "release") return `release is ${cause.status}`;
  return WORDS[cause.kind];
}
