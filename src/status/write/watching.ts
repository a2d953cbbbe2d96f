/** Watches the operator's own objects. */

import type { WatchConsumer, WatchHub, WatchedObject } from "../../kube/index.ts";
import type { Identity } from "./mirrored.ts";
import type { StatusMirror } from "./status-mirror.ts";
import { ADDON_MODULES, ADDON_OPERATORS, type AddonObject } from "../models/kinds.ts";

/**
 * Watches the operator's own objects, so that edits by hand are undone and tokens are seen; returns a function that
 * stops it.
 */
export function watchOwnObjects(hub: WatchHub, mirror: StatusMirror, namespace: string): () => void {
  const subscriptions = (["AddonOperator", "AddonModule"] as const).map((kind) => {
    const resource = kind === "AddonModule" ? ADDON_MODULES : ADDON_OPERATORS;
    return hub.subscribe({ resource, namespace }, consumerFor(mirror, kind));
  });
  return () => {
    for (const subscription of subscriptions) subscription.close();
  };
}

function consumerFor(mirror: StatusMirror, kind: Identity["kind"]): WatchConsumer {
  const see = (object: WatchedObject): void => mirror.onObserved(object as unknown as AddonObject);
  let names = new Set<string>();
  return {
    begin: () => void (names = new Set()),
    object: (object) => {
      names.add(object.metadata.name);
      see(object);
    },
    synced: (version) => mirror.onListed(kind, { names, version }),
    applied: see,
    deleted: (object) => mirror.onDeleted(object as unknown as AddonObject),
    relisted: (keys, version) => mirror.onListed(kind, { names: namesOf(keys), version }),
  };
}

function namesOf(keys: ReadonlySet<string>): ReadonlySet<string> {
  return new Set([...keys].map((key) => key.slice(key.indexOf("/") + 1)));
}
