/** The operator's own series of hooks and of their runs. */

import type { Usage } from "../process/index.ts";
import type { Labels, Metrics } from "./metrics.ts";
import { SERIES, type HookFamily, type SeriesName } from "./series.ts";

/** Which run of which hook; `module` is undefined for a global hook. */
interface HookLabels {
  readonly module: string | undefined;
  readonly hook: string;
  readonly binding: string;
  readonly queue: string;
  readonly activation: string;
}

/** A run that has ended. `allowed`: failed, with allowFailure. */
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

const COUNTED = { failed: "Errors", allowed: "Allowed", success: "Success" } as const;
const OF_GLOBAL_HOOKS = (Object.keys(SERIES) as SeriesName[]).filter((name) => name.startsWith("globalHook"));

/** Makes the counters of a new hook visible, at zero. */
export function showHook(metrics: Metrics, { bindings, ...hook }: HookSample): void {
  for (const binding of bindings) touch(metrics, { ...hook, ...binding });
}

/** Module hooks and global hooks have separate series, and errors of both are counted in a third. */
export function recordRun(metrics: Metrics, run: HookRunSample): void {
  const family = familyOf(run);
  const labels = own(run);
  touch(metrics, run);
  metrics.add(`${family}${COUNTED[run.outcome]}`, labels);
  if (run.outcome === "failed") metrics.add("hookErrors", shared(run));
  if (run.outcome === "allowed") metrics.add("hookAllowed", shared(run));
  metrics.observe(`${family}Run`, labels, run.seconds);
  if (run.usage === undefined) return;
  const { userSeconds, systemSeconds, maxRssBytes } = run.usage;
  metrics.observe(`${family}User`, labels, userSeconds);
  metrics.observe(`${family}System`, labels, systemSeconds);
  if (maxRssBytes !== undefined) metrics.set(`${family}Rss`, labels, maxRssBytes);
}

/** Drops the series of a hook that is gone. */
export function forgetHook(metrics: Metrics, { module, hook }: Pick<HookSample, "module" | "hook">): void {
  metrics.drop({ module: module ?? "", hook });
  // The series of global hooks lack this label.
  if (module === undefined) metrics.drop({ hook }, OF_GLOBAL_HOOKS);
}

function touch(metrics: Metrics, hook: HookLabels): void {
  for (const counted of Object.values(COUNTED)) metrics.touch(`${familyOf(hook)}${counted}`, own(hook));
  for (const name of ["hookErrors", "hookAllowed"] as const) metrics.touch(name, shared(hook));
}

function familyOf({ module }: HookLabels): HookFamily {
  return module === undefined ? "globalHook" : "moduleHook";
}

function own({ module, hook, binding, queue, activation }: HookLabels): Labels {
  return { ...(module === undefined ? {} : { module }), hook, binding, queue, activation };
}

function shared({ module = "", hook, binding, queue }: HookLabels): Labels {
  return { module, hook, binding, queue };
}
