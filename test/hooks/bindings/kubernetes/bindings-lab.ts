import { FilterEngine } from "../../../../src/hooks/filter/index.ts";
import type { Resource } from "../../../../src/kube/index.ts";
import { CONFIG_MAPS, KindFinder, NAMESPACES, WatchHub } from "../../../../src/kube/index.ts";
import { silentLogger } from "../../../../src/base/index.ts";
import type { Hook, HookTrigger, Json, SnapshotItem } from "../../../../src/base/model/index.ts";
import type { KubeBindingsOptions } from "../../../../src/hooks/bindings/index.ts";
import { KubeBindings } from "../../../../src/hooks/bindings/index.ts";
import { Children } from "../../../../src/base/process/index.ts";
import type { Call } from "../../../kube/watch/watch-server.ts";
import { WatchServer, list } from "../../../kube/watch/watch-server.ts";
import { ManualClock, settle } from "../../../support/clock.ts";

/** `hook Added name`, or `hook sync binding`. */
function triggerText(of: Hook, trigger: HookTrigger): string {
  if (trigger.type === "synchronization") return `${of.name} sync ${trigger.binding.name}`;
  if (trigger.type !== "event") return trigger.type;
  return `${of.name} ${trigger.event.watchEvent} ${trigger.event.namespace}/${trigger.event.name}`;
}

export const names = (items: readonly SnapshotItem[]): Json[] =>
  items.map(({ object }) => (object?.["metadata"] as { name: string } | undefined)?.name ?? null);

export function bindingsLab(more: Partial<KubeBindingsOptions> = {}, invalidate = () => {}) {
  const server = new WatchServer();
  const clock = new ManualClock();
  const hub = new WatchHub({ client: server, clock, logger: silentLogger, random: () => 0 });
  const kinds = new Map<string, Resource>([
    ["configmap", CONFIG_MAPS],
    ["namespace", NAMESPACES],
  ]);
  const reported: string[] = [];
  const triggers: HookTrigger[] = [];
  const engine = new FilterEngine({
    children: new Children(),
    jqBin: undefined,
    env: {},
    clock,
    logger: silentLogger,
  });
  const discovery = {
    resolve: (kind: string) => Promise.resolve(kinds.get(kind.toLowerCase())),
    invalidate,
  };
  const finder = new KindFinder({ hub, clock, discovery });
  const bindings = new KubeBindings({
    hub,
    clock,
    logger: silentLogger,
    filters: engine,
    kinds: finder,
    queues: {
      offer: (_, { hook: of, trigger }) => {
        reported.push(triggerText(of, trigger));
        triggers.push(trigger);
      },
    },
    ...more,
  });
  const take = (): string[] => reported.splice(0);
  /** Answers the next list and the watch after it. */
  const serve = async (version: number, items: object[]): Promise<Call> => {
    const call = await server.next();
    if (call.watch) throw new Error("a list was expected");
    call.send(list(version, items)).end();
    const watch = await server.next();
    await settle();
    return watch.open();
  };
  return { server, clock, hub, kinds, finder, bindings, take, triggers, serve };
}
