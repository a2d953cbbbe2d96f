/** The graph of modules and what they require, as the files have it. */

import type { Module, Tree } from "../model/index.ts";

/** What a module names. */
type Edges = (module: Module) => readonly string[];

/** The modules that one requires. */
export const required: Edges = ({ requires }) => Object.keys(requires?.modules ?? {});

/** The modules that come before one, for any reason. */
export const preceding: Edges = (module) => [...required(module), ...(module.after ?? [])];

/** The shortest way from a module back to itself, both ends included; undefined when there is none. */
export function requirementCycle(
  { modules }: Pick<Tree, "modules">,
  name: string,
  edges = required,
): string[] | undefined {
  const byName = new Map(modules.map((module) => [module.name, module]));
  const next = (at: string): readonly string[] => {
    const module = byName.get(at);
    return module === undefined ? [] : edges(module);
  };
  const seen = new Set<string>();
  let paths = [[name]];
  while (paths.length > 0) {
    const longer: string[][] = [];
    for (const path of paths) {
      for (const each of next(path.at(-1) ?? "")) {
        if (each === name) return [...path, name];
        if (seen.has(each)) continue;
        seen.add(each);
        longer.push([...path, each]);
      }
    }
    paths = longer;
  }
  return undefined;
}
