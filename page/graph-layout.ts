/** What of the graph of requirements is drawn, and where each module stands. */

import type { GraphNode } from "../src/ui/wire.ts";

/** `from` requires `to`, or comes after it. */
export interface Edge {
  readonly from: string;
  readonly to: string;
  readonly kind: "met" | "unmet" | "after";
}

/** Its level counts from the left, its line from the top. */
export interface Place {
  readonly level: number;
  readonly line: number;
}

type Neighbours = (name: string) => readonly string[];

export function edgesOf(nodes: readonly GraphNode[]): Edge[] {
  return nodes.flatMap(({ name: from, requires, after }) => [
    ...requires.map(({ name, met }): Edge => ({ from, to: name, kind: met ? "met" : "unmet" })),
    ...after.map((to): Edge => ({ from, to, kind: "after" })),
  ]);
}

/** These, what they require and what requires them, near and far; the nearest first. */
export function related(names: readonly string[], edges: readonly Edge[]): string[] {
  const [before, after] = neighboursOf(edges);
  const steps = [...stepsTo(names, before), ...stepsTo(names, after)].sort(([, a], [, b]) => a - b);
  return [...new Set(steps.map(([name]) => name))];
}

/** A map goes on to what is added to it while it is walked. */
function stepsTo(names: readonly string[], neighbours: Neighbours): Map<string, number> {
  const steps = new Map(names.map((name) => [name, 0]));
  for (const [name, step] of steps)
    for (const next of neighbours(name)) if (!steps.has(next)) steps.set(next, step + 1);
  return steps;
}

/** Each stands one level right of the last that it requires, on a line of its own near those of its neighbours. */
export function layout(names: readonly string[], edges: readonly Edge[]): Map<string, Place> {
  const [before, after] = neighboursOf(edges);
  const levels = levelsOf(names, before);
  const lines = new Map<string, number>();
  for (const level of levels) settle(level, before, lines);
  for (const level of levels.toReversed()) settle(level, after, lines);
  const top = Math.min(...lines.values());
  return new Map(
    levels.flatMap((names, level) =>
      names.map((name): [string, Place] => [name, { level, line: (lines.get(name) ?? 0) - top }]),
    ),
  );
}

/** What a module requires, and what requires it. */
function neighboursOf(edges: readonly Edge[]): readonly [before: Neighbours, after: Neighbours] {
  const [byFrom, byTo] = [Map.groupBy(edges, ({ from }) => from), Map.groupBy(edges, ({ to }) => to)];
  return [
    (name) => (byFrom.get(name) ?? []).map(({ to }) => to),
    (name) => (byTo.get(name) ?? []).map(({ from }) => from),
  ];
}

function levelsOf(names: readonly string[], before: Neighbours): string[][] {
  const left = new Set(names);
  const levels: string[][] = [];
  while (left.size > 0) {
    const free = [...left].filter((name) => !before(name).some((each) => left.has(each)));
    const level = free.length > 0 ? free : [inCircle(left, before)];
    for (const name of level) left.delete(name);
    levels.push(level);
  }
  return levels;
}

/** Where each waits for another, some go round in a circle: whoever walks on comes by twice. */
function inCircle(left: ReadonlySet<string>, before: Neighbours): string {
  const walked = new Set<string>();
  let [at = ""] = left;
  while (!walked.has(at)) {
    walked.add(at);
    at = before(at).find((each) => left.has(each)) ?? at;
  }
  return at;
}

/** Gives those of a level lines of their own, in the order and near the middle of their neighbours. */
function settle(level: readonly string[], neighbours: Neighbours, lines: Map<string, number>): void {
  const wanted = level.map((name, index): [string, number] => {
    const at = neighbours(name).flatMap((each) => lines.get(each) ?? []);
    const middle = at.reduce((sum, line) => sum + line, 0) / at.length;
    return [name, at.length > 0 ? middle : (lines.get(name) ?? index)];
  });
  let free = Number.NEGATIVE_INFINITY;
  for (const [name, line] of wanted.sort(([, a], [, b]) => a - b)) {
    lines.set(name, Math.max(free, Math.round(line)));
    free = (lines.get(name) ?? 0) + 1;
  }
}
