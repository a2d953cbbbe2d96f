/** The graph of what modules require, and cycles in it, which never run (docs/reference/modules.md, "What a module requires"). */

import type { Module, Problem, Tree } from "../../base/model/index.ts";

/** The problem of a module that requires itself, maybe through others, so that it can never run; undefined if it does not. */
export function findCycleProblem(tree: Tree, name: string): Problem | undefined {
  const cycle = findCycle(tree, name);
  if (cycle === undefined) return undefined;
  const dir = tree.modules.find((module) => module.name === name)?.dir ?? "";
  const message = `requires itself: ${cycle.join(" → ")}`;
  return { file: `${dir}/addon.yaml`, key: "requires.modules", message, remedy: "take one of them out" };
}

/** Returns the names of the modules to which a module has an edge in the graph. */
type GetEdges = (module: Module) => readonly string[];

/** The modules that a module requires. */
export const getRequiredModules: GetEdges = ({ requires }) => Object.keys(requires?.modules ?? {});

/** The modules that a module requires or names in `after`. */
export const getPrecedingModules: GetEdges = (module) => [
  ...getRequiredModules(module),
  ...(module.after ?? []),
];

/** The shortest cycle through a module, which is both its first and its last element; undefined without a cycle. `edges`: the modules after a module. */
export function findCycle(
  { modules }: Pick<Tree, "modules">,
  name: string,
  edges = getRequiredModules,
): string[] | undefined {
  const start = modules.find((module) => module.name === name);
  // Most modules have no edges, and each is checked: a map of all modules for each of them would be quadratic work.
  if (start === undefined || edges(start).length === 0) return undefined;
  const byName = new Map(modules.map((module) => [module.name, module]));
  const getSuccessors = (current: string): readonly string[] => {
    const module = byName.get(current);
    return module === undefined ? [] : edges(module);
  };
  // Breadth first: all paths of one length, then those that are longer by one module.
  const seen = new Set<string>();
  let paths = [[name]];
  while (paths.length > 0) {
    const longer: string[][] = [];
    for (const path of paths) {
      for (const each of getSuccessors(path.at(-1) ?? "")) {
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
