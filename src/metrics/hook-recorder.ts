import type { SeriesName } from "./series.ts";
import type { Labels, SeriesRegistry } from "./registry.ts";

/** Which run of which hook; `module` is undefined for a global hook. */
export interface HookLabels {
  readonly module: string | undefined;
  readonly hook: string;
  readonly binding: string;
  readonly queue: string;
  readonly activation: string;
}

/** A finished run. `allowed`: failed, with allowFailure. */
export interface HookRunSample extends HookLabels {
  readonly outcome: "success" | "failed" | "allowed";
  readonly seconds: number;
  readonly usage?:
    | { readonly userSeconds: number; readonly systemSeconds: number; readonly maxRssBytes: number }
    | undefined;
}

/** What happens to hooks. */
export interface HookRecorder {
  /** Makes the counters of a hook's binding visible, at zero. */
  known(labels: HookLabels): void;
  bindings(hook: { module: string | undefined; hook: string; count: number }): void;
  ran(run: HookRunSample): void;
  /** Drops everything about a hook that is gone. */
  forget(hook: string): Promise<void>;
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

const MODULE: Family = {
  run: "moduleHookRun",
  user: "moduleHookUser",
  system: "moduleHookSystem",
  rss: "moduleHookRss",
  failed: "moduleHookErrors",
  allowed: "moduleHookAllowed",
  success: "moduleHookSuccess",
};
const GLOBAL: Family = {
  run: "globalHookRun",
  user: "globalHookUser",
  system: "globalHookSystem",
  rss: "globalHookRss",
  failed: "globalHookErrors",
  allowed: "globalHookAllowed",
  success: "globalHookSuccess",
};

/** The series of hooks: module hooks and global hooks have names of their own, errors of both a third one. */
export function hookRecorder(registry: SeriesRegistry): HookRecorder {
  return {
    known: (labels) => touch(registry, labels),
    bindings: ({ module, hook, count }) =>
      registry.set("bindingCount", { module: module ?? "", hook }, count),
    ran: (run) => record(registry, run),
    forget: (hook) => registry.drop({ hook }),
  };
}

function touch(registry: SeriesRegistry, hook: HookLabels): void {
  const family = hook.module === undefined ? GLOBAL : MODULE;
  for (const name of [family.failed, family.allowed, family.success]) registry.touch(name, own(hook));
  for (const name of ["hookErrors", "hookAllowed"] as const) registry.touch(name, shared(hook));
}

function record(registry: SeriesRegistry, run: HookRunSample): void {
  const family = run.module === undefined ? GLOBAL : MODULE;
  const labels = own(run);
  touch(registry, run);
  registry.add(family[run.outcome], labels);
  if (run.outcome === "failed") registry.add("hookErrors", shared(run));
  if (run.outcome === "allowed") registry.add("hookAllowed", shared(run));
  registry.observe(family.run, labels, run.seconds);
  if (run.usage === undefined) return;
  registry.observe(family.user, labels, run.usage.userSeconds);
  registry.observe(family.system, labels, run.usage.systemSeconds);
  registry.set(family.rss, labels, run.usage.maxRssBytes);
}

function own({ module, hook, binding, queue, activation }: HookLabels): Labels {
  return { ...(module === undefined ? {} : { module }), hook, binding, queue, activation };
}

function shared({ module, hook, binding, queue }: HookLabels): Labels {
  return { module: module ?? "", hook, binding, queue };
}
