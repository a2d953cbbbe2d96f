import { CONFIG_MAPS, NAMESPACES } from "../../src/kube/index.ts";
import type { Resource, WatchedObject } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/base/index.ts";
import { KindWatches } from "../../src/releases/index.ts";
import type { ReleaseObject } from "../../src/releases/index.ts";
import type { WatchedRelease } from "../../src/releases/watched-release.ts";
import { SelfHeal } from "../../src/releases/self-heal.ts";
import { RequestLimit } from "../../src/releases/request-limit.ts";
import { ManualClock, settle } from "../support/clock.ts";
import { kindsOf } from "../support/kinds.ts";
import { manualHub } from "../support/watches.ts";
import { followedBy, FOLLOWED } from "./quiet-analyzers.ts";

export const SECONDS = 1000;
export const MINUTES = 60 * SECONDS;

export const object = (name: string): WatchedObject =>
  ({ metadata: { name, namespace: "ns" } }) as WatchedObject;

export const map = (name: string): ReleaseObject => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  namespace: "ns",
  name,
});

/** A hub and a server in the hands of the test. */
export function healingLab() {
  const clock = new ManualClock();
  const { hub, open } = manualHub();
  const kinds = new Map<string, Resource>([
    ["ConfigMap", CONFIG_MAPS],
    ["Namespace", NAMESPACES],
  ]);
  const there = new Set<string>();
  const reported: string[] = [];
  const deferrals: string[] = [];
  const requested: string[] = [];
  const busy = new Set<string>();
  let resolved = 0;
  let silent = false;
  let [now, most] = [0, 0];
  const answer = async (name: string): Promise<boolean> => {
    requested.push(name);
    now += 1;
    most = Math.max(most, now);
    await Promise.resolve();
    now -= 1;
    if (silent) throw new Error("no answer");
    return there.has(name);
  };
  const watches = new KindWatches({
    hub,
    clock,
    logger: silentLogger,
    kinds: kindsOf(clock, (kind) => {
      resolved += 1;
      return kinds.get(kind);
    }),
  });
  const limit = new RequestLimit(clock);
  const releases = new Map<string, WatchedRelease>();
  const make = (module: string): WatchedRelease => {
    const healing = new SelfHeal({
      kinds: watches,
      checkExists: (_resource, { name }) => answer(name),
      limit,
      clock,
      mayReport: () => !busy.has(module),
      onMissing: (absent) =>
        void reported.push(
          `${module}: ${absent.map(({ name, hasExisted }) => (hasExisted ? name : `${name}!`)).join(" ")}`,
        ),
      onDeferred: (deferred) =>
        void deferrals.push(`${module}: ${deferred.map(({ name }) => name).join(" ")}`),
    });
    return followedBy({ kinds: watches, clock }, { selfHeal: healing });
  };
  /** As `FollowedReleases` does. */
  const healing = {
    setObjects: (module: string, objects: readonly ReleaseObject[]): void => {
      const release = releases.get(module) ?? make(module);
      releases.set(module, release);
      if (objects.length > 0) return release.watchRevision({ ...FOLLOWED, objects });
      release.close();
      releases.delete(module);
    },
    objects: (module: string) => releases.get(module)?.objectNames,
    close: (): void => {
      for (const release of releases.values()) release.close();
      limit.close();
    },
  };
  const watch = (index = 0): (typeof open)[number] => {
    const found = open[index];
    if (found === undefined) throw new Error(`there is no watch ${index}`);
    return found;
  };
  /** The watch has listed these. */
  const listed = async (names: readonly string[], index = 0): Promise<void> => {
    await settle();
    const { consumer } = watch(index);
    for (const name of names) void consumer.onListed(object(name));
    void consumer.onSynced("1");
    await settle();
  };
  const deleted = async (name: string): Promise<void> => {
    there.delete(name);
    void watch().consumer.onDeleted(object(name), true);
    await settle();
  };
  return {
    clock,
    healing,
    open,
    watch,
    kinds,
    there,
    requested,
    busy,
    take: () => reported.splice(0),
    /** What was reported as missing and not restored yet. */
    takeDeferred: () => deferrals.splice(0),
    listed,
    deleted,
    mute: (yes: boolean): void => void (silent = yes),
    /** Most questions at the same time. */
    most: () => most,
    /** How often a kind was looked for. */
    resolved: () => resolved,
  };
}
