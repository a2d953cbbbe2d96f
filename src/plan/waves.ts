/** The order of first runs, in waves (docs/DEBUG.md, "plan"). */

import type { ModuleView, View } from "../state/index.ts";
import { mayRun } from "./may-run.ts";
import { requirementsOf } from "./requirements.ts";

/** In which order a start runs modules. */
interface Order {
  /** Those of one wave wait for nothing but the waves before it. */
  readonly waves: readonly (readonly string[])[];
  /** Modules that cannot run, and what they lack. */
  readonly waits: ReadonlyMap<string, string>;
}

/** Modules that have not run yet. */
type Left = readonly ModuleView[];

/**
 * The waves in which modules that are on run for the first time, where none fails and objects that they require are
 * there: smaller numbers first, and modules that require something as soon as that has run.
 */
export function wavesOf(view: View): Order {
  const waves: string[][] = [];
  let left: Left = [...view.modules.values()].filter(mayRun);
  for (let wave = nextWave(left, view); wave.length > 0; wave = nextWave(left, view)) {
    waves.push(namesOf(wave));
    left = left.filter((each) => !wave.includes(each));
  }
  const waits = left.map((each) => [each.name, lackOf(each, left, view) ?? ""] as const);
  return { waves, waits: new Map(waits) };
}

function namesOf(modules: Left): string[] {
  return modules.map(({ name }) => name);
}

/** Modules that come after each other wait for each other no longer than for what they require. */
function nextWave(left: Left, view: View): Left {
  const able = left.filter((each) => lackOf(each, left, view) === undefined);
  const others = namesOf(able);
  const free = able.filter(
    ({ name, module }) => !module.after?.some((it) => it !== name && others.includes(it)),
  );
  const next = free.length > 0 ? free : able;
  const number = Math.min(...next.map(({ module }) => module.order));
  return next.filter(({ module }) => module.requires !== undefined || module.order <= number);
}

/** The first of what a module requires that is not there before the modules that are left. */
function lackOf({ module }: ModuleView, left: Left, view: View): string | undefined {
  const isLeft = (name: string): boolean => left.some((each) => each.name === name);
  const lack = requirementsOf({ module }, view).find(({ of, name, unmet }) => {
    if (of === "object" || unmet === undefined) return false;
    return unmet.reason !== "DependencyNotReady" || isLeft(name) || !comes(name, view);
  });
  return lack && `${lack.name}, which ${lack.unmet?.message ?? ""}`;
}

function comes(name: string, { modules }: View): boolean {
  const module = modules.get(name);
  return module !== undefined && mayRun(module);
}
