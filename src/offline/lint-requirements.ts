/** What is wrong with what modules require, as far as their files tell (docs/MODULES.md, "What a module requires"). */

import { join } from "node:path";

import { inRange } from "../lib/index.ts";
import type { Module, Problem } from "../model/index.ts";
import { MODULE_FILE } from "../modules/index.ts";
import { preceding, requirementCycle } from "../plan/index.ts";

/** Names of modules that there are none of, versions that no module here has, and circles. */
export function lintRequirements(modules: readonly Module[]): Problem[] {
  const byName = new Map(modules.map((module) => [module.name, module]));
  return [...modules.flatMap((module) => unmeetable(module, byName)), ...cycles(modules)];
}

function unmeetable(module: Module, byName: ReadonlyMap<string, Module>): Problem[] {
  const ranges = Object.entries(module.requires?.modules ?? {});
  return [
    ...ranges.flatMap(([name, range]) => {
      const message = faultOf(byName.get(name), range);
      return message === undefined ? [] : [problem(module, `requires.modules.${name}`, message)];
    }),
    ...(module.after ?? []).flatMap((name, place) =>
      byName.has(name) ? [] : [problem(module, `after.${place}`, `${name} is no module here`)],
    ),
  ];
}

function faultOf(found: Module | undefined, range: string): string | undefined {
  if (found === undefined) return "is no module here";
  if (found.problem !== undefined || inRange(found.chartVersion, range)) return undefined;
  const has = found.chartVersion === undefined ? "has no version" : `has version ${found.chartVersion}`;
  return `${has}, which is not in ${range}`;
}

function problem(module: Module, key: string, message: string): Problem {
  const remedy = "correct it, or name all modules directories";
  return { file: join(module.dir, MODULE_FILE), key, message, remedy };
}

/** Each circle once, told of the first module in it. */
function cycles(modules: readonly Module[]): Problem[] {
  const told = new Set<string>();
  return modules.flatMap((module) => {
    const cycle = told.has(module.name) ? undefined : requirementCycle({ modules }, module.name, preceding);
    if (cycle === undefined) return [];
    for (const name of cycle) told.add(name);
    const message = `requires itself, or comes before itself: ${cycle.join(" → ")}`;
    const remedy = "take one of them out of requires or after";
    return [{ file: join(module.dir, MODULE_FILE), message, remedy }];
  });
}
