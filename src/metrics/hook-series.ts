/** The operator's own series of hooks and of their runs. */

import type { Usage } from "../process/index.ts";
import type { Labels, SeriesRegistry } from "./registry.ts";
import type { SeriesName } from "./series.ts";

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

const OF_MODULE_HOOKS = {
  run: "moduleHookRun",
  user: "moduleHookUser",
  system: "moduleHookSystem",
  rss: "moduleHookRss",
  failed: "moduleHookErrors",
  allowed: "moduleHookAllowed",
  success: "moduleHookSuccess",
} as const;
const OF_GLOBAL_HOOKS = {
  run: "globalHookRun",
  user: "globalHookUser",
  system: "globalHookSystem",
  rss: "globalHookRss",
  failed: "globalHookErrors",
  allowed: "globalHookAllowed",
  success: "globalHookSuccess",
} as const satisfies Record<keyof typeof OF_MODULE_HOOKS, SeriesName>;

/**
 * The series of hooks: module hooks and global hooks have separate ones, and errors of both are counted in a third.
 */
export class HookRunSeries {
  readonly #registry: SeriesRegistry;

  constructor(registry: SeriesRegistry) {
    this.#registry = registry;
  }

  /** Makes the counters of a new hook visible, at zero. */
  known({ bindings, ...hook }: HookSample): void {
    for (const binding of bindings) this.#touch({ ...hook, ...binding });
  }

  /** All hooks that exist now. */
  stand(hooks: readonly HookSample[]): void {
    this.#registry.clear("bindingCount");
    for (const { module = "", hook, bindings } of hooks)
      this.#registry.set("bindingCount", { module, hook }, bindings.length);
  }

  ran(run: HookRunSample): void {
    const family = familyOf(run);
    const labels = own(run);
    this.#touch(run);
    this.#registry.add(family[run.outcome], labels);
    if (run.outcome === "failed") this.#registry.add("hookErrors", shared(run));
    if (run.outcome === "allowed") this.#registry.add("hookAllowed", shared(run));
    this.#registry.observe(family.run, labels, run.seconds);
    if (run.usage === undefined) return;
    const { userSeconds, systemSeconds, maxRssBytes } = run.usage;
    this.#registry.observe(family.user, labels, userSeconds);
    this.#registry.observe(family.system, labels, systemSeconds);
    if (maxRssBytes !== undefined) this.#registry.set(family.rss, labels, maxRssBytes);
  }

  /** Drops the series of a hook that is gone. */
  async forget({ module, hook }: Pick<HookSample, "module" | "hook">): Promise<void> {
    await this.#registry.drop({ module: module ?? "", hook });
    // The series of global hooks lack this label.
    if (module === undefined) await this.#registry.drop({ hook }, Object.values(OF_GLOBAL_HOOKS));
  }

  #touch(hook: HookLabels): void {
    const { failed, allowed, success } = familyOf(hook);
    for (const name of [failed, allowed, success]) this.#registry.touch(name, own(hook));
    for (const name of ["hookErrors", "hookAllowed"] as const) this.#registry.touch(name, shared(hook));
  }
}

function familyOf({ module }: HookLabels): typeof OF_MODULE_HOOKS | typeof OF_GLOBAL_HOOKS {
  return module === undefined ? OF_GLOBAL_HOOKS : OF_MODULE_HOOKS;
}

function own({ module, hook, binding, queue, activation }: HookLabels): Labels {
  return { ...(module === undefined ? {} : { module }), hook, binding, queue, activation };
}

function shared({ module = "", hook, binding, queue }: HookLabels): Labels {
  return { module, hook, binding, queue };
}
