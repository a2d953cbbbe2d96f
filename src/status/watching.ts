import type { WatchConsumer, WatchHub, WatchedObject } from "../kube/index.ts";
import type { StatusMirror } from "./mirror.ts";
import { ADDON_MODULES, ADDON_OPERATORS, type AddonObject } from "./resources.ts";

/** Shows the mirror its own objects, so that hand edits are put right and tokens are seen; returns the way to stop. */
export function watchOwnObjects(hub: WatchHub, mirror: StatusMirror, namespace: string): () => void {
  const see = (object: WatchedObject): void => mirror.onObserved(object as unknown as AddonObject);
  const consumer: WatchConsumer = {
    object: see,
    synced: () => {},
    applied: see,
    deleted: (object) => mirror.onDeleted(object as unknown as AddonObject),
  };
  const subscriptions = [ADDON_OPERATORS, ADDON_MODULES].map((resource) =>
    hub.subscribe({ resource, namespace }, consumer),
  );
  return () => {
    for (const subscription of subscriptions) subscription.close();
  };
}
