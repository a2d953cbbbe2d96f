import { KindFinder, type Resource, type WatchHub } from "../../src/kube/index.ts";
import type { Clock } from "../../src/base/index.ts";

/** A finder of the kinds that `resolve` knows; no CRD wakes it. */
export function kindsOf(clock: Clock, resolve: (kind: string) => Resource | undefined): KindFinder {
  const hub = {
    subscribe: () => ({ whenSynced: Promise.resolve(), close: () => {} }),
  } as unknown as WatchHub;
  const discovery = { resolve: async (kind: string) => resolve(kind), invalidate: () => {} };
  return new KindFinder({ hub, clock, discovery });
}
