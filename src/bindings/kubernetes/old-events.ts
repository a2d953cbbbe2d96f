/** Items of `onKubernetesEvent` (docs/HOOKS.md, "The old configuration"). */

import type { KubernetesBinding, ObjectEvent, WatchEvent } from "../../model/index.ts";
import { itemBinding } from "../kind.ts";
import type { Complain, Reading, Members } from "../kind.ts";
import { BOOLEAN, STRING, STRINGS, object } from "../shape.ts";
import type { Fits } from "../shape.ts";
import { LABEL_SELECTOR, labelSelector, someOf } from "./selectors.ts";

export const ALL_EVENTS = ["Added", "Modified", "Deleted"] as const satisfies readonly WatchEvent[];

/** How they are called in version 0. */
const OLD_NAMES: Readonly<Record<WatchEvent, string>> = {
  Added: "add",
  Modified: "update",
  Deleted: "delete",
};

/** The form of an item; unknown keys are tolerated. */
export const OLD_EVENT = object(
  {
    name: STRING,
    kind: STRING,
    event: STRINGS,
    selector: LABEL_SELECTOR,
    objectName: STRING,
    namespaceSelector: object({ matchNames: STRINGS, any: BOOLEAN }, { open: true }),
    jqFilter: STRING,
    allowFailure: BOOLEAN,
    disableDebug: BOOLEAN,
  },
  { required: ["kind"], open: true },
);

/** No Synchronization, no snapshots, no queue of its choice. */
export function oldBinding(
  raw: Fits<typeof OLD_EVENT>,
  index: number,
  { complain, queue }: Reading,
): KubernetesBinding {
  // Other keys of items are tolerated here, and mean nothing.
  const { name, allowFailure } = raw;
  const common = itemBinding({ name, allowFailure }, { key: "onKubernetesEvent", index }, queue);
  const { id } = common;
  const any = raw.namespaceSelector?.any === true;
  return {
    type: "kubernetes",
    ...common,
    apiVersion: undefined,
    kind: raw.kind,
    events: raw.event?.flatMap((event) => watchEvent(event, id, complain)) ?? ALL_EVENTS,
    executeOnSynchronization: false,
    waitForSynchronization: true,
    keepFullObjects: false,
    jqFilter: raw.jqFilter || undefined,
    names: raw.objectName ? [raw.objectName] : undefined,
    labelSelector: labelSelector(raw.selector, { path: `${id}.selector`, complain }),
    fieldSelector: undefined,
    namespaces: any ? undefined : someOf(raw.namespaceSelector?.matchNames),
    namespaceLabels: undefined,
  };
}

function watchEvent(event: string, id: string, complain: Complain): WatchEvent[] {
  const known = ALL_EVENTS.find((each) => OLD_NAMES[each] === event);
  if (known === undefined) complain(`${id}.event: event '${event}' is unsupported, use add, update, delete`);
  return known === undefined ? [] : [known];
}

/** What a hook of version 0 is told of an event. */
export function oldMembers({ watchEvent, kind, namespace, name }: ObjectEvent): Members {
  return {
    resourceEvent: OLD_NAMES[watchEvent],
    resourceKind: kind,
    resourceName: name,
    resourceNamespace: namespace,
  };
}
