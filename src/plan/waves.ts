/** The order of first runs, in waves (docs/DEBUG.md, "plan"). */

import type { ModuleView, View } from "../state/index.ts";
import { requirementsOf, mayRun, orderOf } from "./turns.ts";

/** In which order a start runs modules. */
interface Order {
  /** Those of one wave wait for nothing but the waves before it. */
  readonly waves: readonly (readonly string[])[];
  /** Modules that cannot run, and what they lack. */
  readonly waits: ReadonlyMap<string, string>;
}

/** The course of the runs. */
interface Course {
  readonly view: View;
  /** Modules that have not run yet. */
  readonly left: readonly ModuleView[];
  /** Those whose turn has passed: they run when nothing keeps them any more. */
  readonly passed: Set<string>;
  /** Those that run now. */
  readonly wave: ModuleView[];
}

/**
 * The waves in which modules that are on run for the first time, where none fails, all take equally long, and objects
 * that they require are there: smaller numbers first, and modules that require something as soon as that has run.
 */
export function wavesOf(view: View): Order {
  const waves: string[][] = [];
  let course: Course = { view, left: [...view.modules.values()].filter(mayRun), passed: new Set(), wave: [] };
  for (let wave = nextWave(course); wave.length > 0; wave = nextWave(course)) {
    waves.push(wave.map(({ name }) => name));
    course = { ...course, left: course.left.filter((each) => !wave.includes(each)), wave: [] };
  }
  const waits = course.left.map((each) => [each.name, lackOf(each, course) ?? ""] as const);
  return { waves, waits: new Map(waits) };
}

/** As `turnsDue` and `waitOf` have it, again and again until nobody more begins. */
function nextWave(course: Course): ModuleView[] {
  const { left, passed, wave } = course;
  for (;;) {
    const open = left.filter(({ name }) => !passed.has(name));
    const number = Math.min(...open.filter((each) => isFree(each, course)).map(orderOf));
    const isDue = (each: ModuleView): boolean =>
      passed.has(each.name)
        ? isFree(each, course)
        : each.module.requires !== undefined || orderOf(each) <= number;
    const due = left.filter((each) => !wave.includes(each) && isDue(each));
    if (due.length === 0) return wave;
    for (const each of due) {
      if (isFree(each, course)) wave.push(each);
      else passed.add(each.name);
    }
  }
}

/** Whether nothing keeps a module: what it requires has run, and those of `after` have, or have passed. */
function isFree(module: ModuleView, course: Course): boolean {
  const { left, passed, wave } = course;
  if (lackOf(module, course) !== undefined) return false;
  const before = left.filter((each) => module.module.after?.includes(each.name));
  return before.every((each) => passed.has(each.name) && !wave.includes(each));
}

/** The first of what a module requires that is not there before the modules that are left. */
function lackOf({ module }: ModuleView, { left, view }: Course): string | undefined {
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
