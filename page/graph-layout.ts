/** The layout of the graph of requirements. */

import type { GraphNode } from "../src/surface/ui/wire.ts";

/** `from` requires `to`, or runs after it. */
export interface Edge {
  readonly from: string;
  readonly to: string;
  readonly kind: "met" | "unmet" | "after";
}

/** The column (`level`, from the left) and row (`line`, from the top) of a node. */
export interface NodePosition {
  readonly level: number;
  readonly line: number;
}

type Neighbours = (name: string) => readonly string[];

export function listEdges(nodes: readonly GraphNode[]): Edge[] {
  return nodes.flatMap(({ name: from, requires, after }) => [
    ...requires.map(({ name, met }): Edge => ({ from, to: name, kind: met ? "met" : "unmet" })),
    ...after.map((to): Edge => ({ from, to, kind: "after" })),
  ]);
}

/** The modules `names`, all that they require directly or indirectly, and all that require them, nearest first. */
export function findRelatedModules(names: readonly string[], edges: readonly Edge[]): string[] {
  const [before, after] = adjacency(edges);
  const steps = [...distances(names, before), ...distances(names, after)].sort(([, a], [, b]) => a - b);
  return [...new Set(steps.map(([name]) => name))];
}

/** Numbers of steps from `names`, by breadth-first search: the loop also visits entries that it adds to the map. */
function distances(names: readonly string[], neighbours: Neighbours): Map<string, number> {
  const steps = new Map(names.map((name) => [name, 0]));
  for (const [name, step] of steps)
    for (const next of neighbours(name)) if (!steps.has(next)) steps.set(next, step + 1);
  return steps;
}

/** Places each module one level right of its last requirement, on a separate line near the lines of its neighbours. */
export function layout(names: readonly string[], edges: readonly Edge[]): Map<string, NodePosition> {
  const [before, after] = adjacency(edges);
  const levels = assignLevels(names, before);
  const lines = new Map<string, number>();
  // The first pass places modules near their requirements, the second near the modules that require them.
  for (const level of levels) assignLines(level, before, lines);
  for (const level of levels.toReversed()) assignLines(level, after, lines);
  const top = Math.min(...lines.values());
  return new Map(
    levels.flatMap((names, level) =>
      names.map((name): [string, NodePosition] => [name, { level, line: (lines.get(name) ?? 0) - top }]),
    ),
  );
}

/** The requirements of a module, and the modules that require it. */
function adjacency(edges: readonly Edge[]): readonly [before: Neighbours, after: Neighbours] {
  const [byFrom, byTo] = [Map.groupBy(edges, ({ from }) => from), Map.groupBy(edges, ({ to }) => to)];
  return [
    (name) => (byFrom.get(name) ?? []).map(({ to }) => to),
    (name) => (byTo.get(name) ?? []).map(({ from }) => from),
  ];
}

/** Groups modules by level: each is right of all that it requires. In a cycle, one member goes first. */
function assignLevels(names: readonly string[], before: Neighbours): string[][] {
  const left = new Set(names);
  const levels: string[][] = [];
  while (left.size > 0) {
    const placeable = [...left].filter((name) => !before(name).some((each) => left.has(each)));
    const level = placeable.length > 0 ? placeable : [findCycleMember(left, before)];
    for (const name of level) left.delete(name);
    levels.push(level);
  }
  return levels;
}

/** A member of a cycle, found by following requirements until a module repeats. */
function findCycleMember(left: ReadonlySet<string>, before: Neighbours): string {
  const visited = new Set<string>();
  let [at = ""] = left;
  while (!visited.has(at)) {
    visited.add(at);
    at = before(at).find((each) => left.has(each)) ?? at;
  }
  return at;
}

/** Gives each module of a level a separate line, as near as possible to the mean line of its neighbours. */
function assignLines(level: readonly string[], neighbours: Neighbours, lines: Map<string, number>): void {
  const wanted = level.map((name, index): [string, number] => {
    const known = neighbours(name).flatMap((each) => lines.get(each) ?? []);
    const mean = known.reduce((sum, line) => sum + line, 0) / known.length;
    return [name, known.length > 0 ? mean : (lines.get(name) ?? index)];
  });
  let firstFree = Number.NEGATIVE_INFINITY;
  for (const [name, wantedLine] of wanted.sort(([, a], [, b]) => a - b)) {
    const line = Math.max(firstFree, Math.round(wantedLine));
    lines.set(name, line);
    firstFree = line + 1;
  }
}
