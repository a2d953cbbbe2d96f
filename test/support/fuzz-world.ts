import type { QueueMode } from "../../src/base/model/index.ts";
import { EngineLab } from "./engine-lab.ts";
import { reportWrongRuns, requiring, wrongRemoval } from "./fuzz-requirements.ts";
import type { HookAct, HookSpec, ModuleSpec } from "./engine-lab.ts";
import { random } from "./random.ts";

/** The cluster as hooks see it: a number per hook that events are about, and how likely things fail. */
export interface Weather {
  readonly seen: Map<string, number>;
  readonly cached: Set<string>;
  bad: number;
  slow: boolean;
}

/** Random modules and hooks over one weather; `lab` may be asked for twice, for an undisturbed twin. */
export class FuzzWorld {
  readonly roll: () => number;
  readonly weather: Weather = { seen: new Map(), cached: new Set(), bad: 0, slow: false };
  globalHooks: readonly HookSpec[];
  modules: ModuleSpec[];
  /** Numbers of events by hook in the order in which successful runs were handed them. */
  readonly handled = new Map<string, number[]>();
  readonly all: readonly ModuleSpec[];

  constructor(seed: number) {
    this.roll = random(seed);
    this.globalHooks = ["g0", "g1"].slice(0, this.below(3)).map((name) => this.#hook(name, undefined));
    const all = Array.from({ length: 1 + this.below(4) }, (_, index) => this.#module(`m${index}`));
    // Numbers of its own, so that all else of a seed's story is as it is without requirements.
    this.all = requiring(all, seed, random(~seed));
    this.modules = [...this.all];
  }

  below(limit: number): number {
    return Math.floor(this.roll() * limit);
  }

  chance(part: number): boolean {
    return this.roll() < part;
  }

  pick<T>(from: readonly T[]): T | undefined {
    return from[this.below(from.length)];
  }

  lab(config: Record<string, string>, moduleQueues: QueueMode = "main"): EngineLab {
    const world = { modules: this.modules, globalHooks: this.globalHooks, config };
    const lab = new EngineLab({ ...world, moduleQueues, parallelModules: 2 });
    const fails = (): boolean => this.chance(this.weather.bad);
    reportWrongRuns(lab);
    lab.helmFails = () => (fails() ? "helm fell" : undefined);
    lab.uninstallFails = (name) => {
      lab.broken.push(...wrongRemoval(lab, name));
      return fails();
    };
    lab.writeFails = fails;
    return lab;
  }

  hooks(): { id: string; spec: HookSpec; module: string | undefined }[] {
    const own = this.all.flatMap((module) =>
      (module.hooks ?? []).map((spec) => ({ id: `${module.name}/${spec.name}`, spec, module: module.name })),
    );
    return [...this.globalHooks.map((spec) => ({ id: spec.name, spec, module: undefined })), ...own];
  }

  #module(name: string): ModuleSpec {
    const hooks = ["a", "b"].slice(0, this.below(3)).map((hook) => this.#hook(hook, name));
    return {
      name,
      order: this.below(3),
      ...(this.chance(0.6) ? { enabled: true } : {}),
      ...(this.chance(0.3) ? { section: { own: this.below(3) } } : {}),
      chart: this.chance(0.15) ? "none" : "own",
      hooks,
      ...(this.chance(0.3) ? { script: this.#script(name) } : {}),
    };
  }

  /** Off when the number it looks at is odd, or (sometimes) when a module before it is. */
  #script(name: string): (enabled: readonly string[]) => boolean {
    const needs = this.chance(0.5) ? undefined : "m0";
    return (enabled) => {
      if (this.chance(this.weather.bad)) throw new Error("script fell");
      return needs === undefined
        ? (this.weather.seen.get(`script ${name}`) ?? 0) % 2 === 0
        : enabled.includes(needs);
    };
  }

  #hook(name: string, module: string | undefined): HookSpec {
    const id = module === undefined ? name : `${module}/${name}`;
    const ours =
      module === undefined
        ? ["onStartup", "beforeAll", "afterAll"]
        : ["onStartup", "beforeHelm", "afterHelm", "beforeDeleteHelm", "afterDeleteHelm"];
    const lifecycle = Object.fromEntries(
      ours.filter(() => this.chance(0.4)).map((each) => [each, this.below(3)]),
    );
    const queue = this.chance(0.5) ? {} : { queue: `side ${this.below(2)}` };
    const watching = this.chance(0.6);
    // No two hooks set one flag: they could not agree on it, and the operator would rightly never rest.
    const flagged = name === "g0" ? this.below(2) : 2;
    const flag = module === undefined && this.chance(0.4) ? `/m${flagged}Enabled` : undefined;
    const writes = this.chance(0.2);
    // Only hooks that every start runs may leave something: else a fresh start could not end the same.
    const sure = watching || Object.keys(lifecycle).some((each) => !each.endsWith("DeleteHelm"));
    return {
      name,
      lifecycle,
      ...(watching ? { kubernetes: [queue] } : {}),
      ...(this.chance(0.4) ? { schedules: [queue] } : {}),
      act: (triggers) => {
        const fail = this.chance(this.weather.bad);
        const slow = this.weather.slow && this.chance(0.5) ? { takes: 1 + this.below(3000) } : {};
        if (fail) return { fail: "hook fell", ...slow };
        const seen = this.weather.seen.get(id) ?? 0;
        this.#note(id, triggers);
        if (!sure) return slow;
        return { ...slow, ...patches({ name, module, seen: watching ? seen : 0, flag, writes }) };
      },
    };
  }

  #note(id: string, triggers: readonly { readonly type: string }[]): void {
    const numbers = this.handled.get(id) ?? [];
    for (const each of triggers) {
      if (each.type === "event")
        numbers.push(Number((each as unknown as { event: { name: string } }).event.name));
    }
    this.handled.set(id, numbers);
  }
}

/** What a hook leaves depends on what it sees only, so that running it again changes nothing. */
function patches(hook: {
  name: string;
  module: string | undefined;
  seen: number;
  flag: string | undefined;
  writes: boolean;
}): HookAct {
  const section = hook.module ?? "global";
  const values: unknown[] = [{ op: "add", path: `/${section}/by-${hook.name}`, value: hook.seen }];
  if (hook.flag !== undefined) values.push({ op: "add", path: hook.flag, value: hook.seen % 2 === 0 });
  const config = { op: "add", path: `/${section}/kept-${hook.name}`, value: "x" };
  return { values, ...(hook.writes ? { config } : {}) };
}
