/** Records what happens to hooks in their series. */

import type { Usage } from "../../process/index.ts";
import type { SeriesName } from "../series.ts";
import type { Labels, SeriesRegistry } from "../registry.ts";

/** Which run of which hook; `module` is undefined for a global hook. */
interface HookLabels {
  readonly module: string | undefined;
  readonly hook: string;
  readonly binding: string;
  readonly queue: string;
  readonly activation: string;
}

/** A finished run. `allowed`: failed, with allowFailure. */
interface HookRunSample extends HookLabels {
  readonly outcome: "success" | "failed" | "allowed";
  readonly seconds: number;
  /** Undefined where it is not known. */
  readonly usage?: Usage | undefined;
}

/** A hook and the queues and bindings it may run with. */
export interface HookSample {
  readonly module: string | undefined;
  readonly hook: string;
  readonly bindings: readonly Pick<HookLabels, "binding" | "queue" | "activation">[];
}

/** What is recorded about hooks. */
export interface HookRecorder {
  /** Makes the counters of a new hook visible, at zero. */
  known(hook: HookSample): void;
  /** All hooks that exist now. */
  stand(hooks: readonly HookSample[]): void;
  ran(run: HookRunSample): void;
  /** Drops the series of a hook that is gone. */
  forget(hook: Pick<HookSample, "module" | "hook">): Promise<void>;
}

interface Family {
  readonly run: SeriesName;
  readonly user: SeriesName;
  readonly system: SeriesName;
  readonly rss: SeriesName;
  readonly failed: SeriesName;
  readonly allowed: SeriesName;
  readonly success: SeriesName;
}

const OF_MODULE_HOOKS: Family = {
  run: "moduleHookRun",
  user: "moduleHookUser",
  system: "moduleHookSystem",
  rss: "moduleHookRss",
  failed: "moduleHookErrors",
  allowed: "moduleHookAllowed",
  success: "moduleHookSuccess",
};
const OF_GLOBAL_HOOKS: Family = {
  run: "globalHookRun",
  user: "globalHookUser",
  system: "globalHookSystem",
  rss: "globalHookRss",
  failed: "globalHookErrors",
  allowed: "globalHookAllowed",
  success: "globalHookSuccess",
};

/**
 * The series of hooks: module hooks and global hooks have separate ones, and errors of both are counted in a third.
 */
export function hookRecorder(registry: SeriesRegistry): HookRecorder {
  return {
    known({ bindings, ...hook }) {
      for (const binding of bindings) touch(registry, { ...hook, ...binding });
    },
    stand(hooks) {
      registry.clear("bindingCount");
      for (const { module, hook, bindings } of hooks) {
        registry.set("bindingCount", { module: module ?? "", hook }, bindings.length);
      }
    },
    ran: (run) => record(registry, run),
    async forget({ module, hook }) {
      await registry.drop({ module: module ?? "", hook });
      // The series of global hooks lack this label.
      if (module === undefined) await registry.drop({ hook }, Object.values(OF_GLOBAL_HOOKS));
    },
  };
}

function touch(registry: SeriesRegistry, hook: HookLabels): void {
  const family = hook.module === undefined ? OF_GLOBAL_HOOKS : OF_MODULE_HOOKS;
  for (const name of [family.failed, family.allowed, family.success]) registry.touch(name, own(hook));
  for (const name of ["hookErrors", "hookAllowed"] as const) registry.touch(name, shared(hook));
}

function record(registry: SeriesRegistry, run: HookRunSample): void {
  const family = run.module === undefined ? OF_GLOBAL_HOOKS : OF_MODULE_HOOKS;
  const labels = own(run);
  touch(registry, run);
  registry.add(family[run.outcome], labels);
  if (run.outcome === "failed") registry.add("hookErrors", shared(run));
  if (run.outcome === "allowed") registry.add("hookAllowed", shared(run));
  registry.observe(family.run, labels, run.seconds);
  if (run.usage === undefined) return;
  registry.observe(family.user, labels, run.usage.userSeconds);
  registry.observe(family.system, labels, run.usage.systemSeconds);
  if (run.usage.maxRssBytes !== undefined) registry.set(family.rss, labels, run.usage.maxRssBytes);
}

function own({ module, hook, binding, queue, activation }: HookLabels): Labels {
  return { ...(module === undefined ? {} : { module }), hook, binding, queue, activation };
}

function shared({ module, hook, binding, queue }: HookLabels): Labels {
  return { module: module ?? "", hook, binding, queue };
}
