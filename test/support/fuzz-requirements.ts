/** What random modules require of each other, and what must hold then whatever happens. */

import type { View } from "../../src/engine/state/index.ts";
import type { EngineLab, ModuleSpec } from "./engine-lab.ts";

/** Modules with requirements, without a circle mostly; every other seed has none. */
export function requiring(
  modules: readonly ModuleSpec[],
  seed: number,
  roll: () => number,
): readonly ModuleSpec[] {
  if (seed % 2 === 0) return modules;
  const below = (limit: number): number => Math.floor(roll() * limit);
  // Each requires some of those before it in an order that is not that of their numbers.
  const shuffled = modules.map(({ name }) => [roll(), name] as const).toSorted(([a], [b]) => a - b);
  const order = shuffled.map(([, name]) => name);
  const cyclic = roll() < 0.15;
  return modules.map((module) => {
    const earlier = cyclic ? order : order.slice(0, order.indexOf(module.name));
    const names = [...earlier.filter(() => roll() < 0.4), ...(roll() < 0.05 ? ["none"] : [])];
    const after = roll() < 0.2 ? [order[below(order.length)] ?? ""] : undefined;
    return {
      ...module,
      ...(names.length > 0 && {
        requires: { modules: Object.fromEntries(names.map((name) => [name, "*"])) },
      }),
      ...(after && { after }),
    };
  });
}

const namesOf = ({ requires }: Pick<ModuleSpec, "requires">): string[] =>
  Object.keys(requires?.modules ?? {});

/** Reports runs that begin without what their module requires. A run in progress goes on when that is lost. */
export function reportWrongRuns(lab: EngineLab): void {
  const running = new Set<string>();
  lab.state.onChange((view) => {
    for (const { name, activity } of view.modules.values()) {
      const isRunning = activity === "running" || activity === "healing";
      if (isRunning && !running.has(name)) lab.broken.push(...wrongRun(view, name));
      if (isRunning) running.add(name);
      else running.delete(name);
    }
  });
}

/** What is wrong with a run of a module that begins now. */
function wrongRun({ modules }: View, name: string): string[] {
  const isThere = (of: string): boolean =>
    modules.get(of)?.enabled === true && modules.get(of)?.phase === "ready";
  const missing = namesOf(modules.get(name)?.module ?? {}).filter((of) => !isThere(of));
  return missing.map((of) => `${name} runs without ${of}`);
}

/** What is wrong with the removal of a module now; those that require each other go in any order. */
export function wrongRemoval(lab: EngineLab, name: string): string[] {
  const { modules } = lab.state.view;
  const users = [...modules.values()].filter(({ module }) => namesOf(module).includes(name));
  const left = users.filter((user) => {
    if (reaches(lab, name, user.name)) return false;
    return user.enabled || ![undefined, "uninstalled"].includes(lab.releases.get(user.name)?.status);
  });
  return left.map((user) => `${name} is removed before ${user.name}`);
}

/** Whether a module requires another one, by whatever way. */
function reaches(lab: EngineLab, from: string, to: string): boolean {
  const seen = new Set<string>();
  const open = [from];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const next = namesOf(lab.state.view.modules.get(name)?.module ?? {});
    if (next.includes(to)) return true;
    open.push(...next.filter((each) => !seen.has(each)));
    for (const each of next) seen.add(each);
  }
  return false;
}

/** Modules that are on and have to wait for ever: what they require is off, is none, or has to wait itself. */
export function waitingForEver(lab: EngineLab): string[] {
  const { modules } = lab.state.view;
  const comes = (name: string): boolean => {
    const found = modules.get(name);
    if (found?.enabled !== true || found.problem !== undefined) return false;
    return namesOf(found.module).every(comes);
  };
  const on = [...modules.values()].filter(({ enabled, problem }) => enabled && problem === undefined);
  return on.map(({ name }) => name).filter((name) => !comes(name));
}

/** Those, and what keeps its release for one that is on: an undisturbed start would not have made it. */
export function keptFromBefore(lab: EngineLab): string[] {
  const all = [...lab.state.view.modules.values()];
  const users = all.filter(({ enabled }) => enabled);
  const kept = all.filter(
    ({ name, enabled }) => !enabled && users.some((user) => reaches(lab, user.name, name)),
  );
  return [...waitingForEver(lab), ...kept.map(({ name }) => name)];
}
