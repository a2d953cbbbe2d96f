import type { WatchConsumer, WatchHub, WatchSpec } from "../../src/kube/index.ts";

/** A watch that a test feeds. */
export interface OpenWatch {
  readonly spec: WatchSpec;
  readonly consumer: WatchConsumer;
  closed: boolean;
}

/** A hub whose watches the test feeds by their consumers; `open` has all of them, in order. */
export function manualHub(): { readonly hub: WatchHub; readonly open: OpenWatch[] } {
  const open: OpenWatch[] = [];
  const hub = {
    subscribe: (spec: WatchSpec, consumer: WatchConsumer) => {
      const watch = { spec, consumer, closed: false };
      open.push(watch);
      return { whenSynced: Promise.resolve(), close: () => void (watch.closed = true) };
    },
  } as unknown as WatchHub;
  return { hub, open };
}
