/** The graph of what modules require: its cycles, its picture (docs/MODULES.md, "What a module requires"). */

import type { Json, Module, Problem, Tree } from "../model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { requirementsOf, type Requirement } from "./turns.ts";

/** A module in the graph. */
interface GraphNode {
  readonly module: string;
  readonly state: string;
  readonly requires: readonly Requirement[];
  readonly after: readonly string[];
}

/** How a graph is drawn as text. */
type GraphFormat = "text" | "dot" | "mermaid";

/** All modules in their order, each with its state and what it requires. */
export function graphOf(view: View, stateOf: (module: ModuleView) => string): GraphNode[] {
  return [...view.modules.values()].map((module) => ({
    module: module.name,
    state: stateOf(module),
    requires: requirementsOf(module, view),
    after: module.module.after ?? [],
  }));
}

/** The graph as data. */
export function graphData(nodes: readonly GraphNode[]): Json {
  return nodes.map(({ module, state, requires, after }) => ({
    module,
    state,
    requires: requires.map(({ name, range, unmet }) => ({
      name,
      ...(range !== undefined && { range }),
      ...(unmet === undefined ? { met: true } : { met: false, reason: unmet.reason, message: unmet.message }),
    })),
    after: [...after],
  }));
}

/** The graph as text: for people, for Graphviz, for Markdown. */
export function drawGraph(nodes: readonly GraphNode[], format: GraphFormat): string {
  const lines = format === "text" ? nodes.map(lineOf) : framed(nodes, format);
  return `${lines.join("\n")}\n`;
}

function lineOf({ module, state, requires, after }: GraphNode): string {
  const needs = requires.map(
    ({ name, unmet }) => `${name}${unmet === undefined ? "" : ` (${unmet.message})`}`,
  );
  const parts = [
    ...(needs.length > 0 ? [`requires ${needs.join(", ")}`] : []),
    ...(after.length > 0 ? [`after ${after.join(", ")}`] : []),
  ];
  return `${module}: ${[state, ...parts].join("; ")}`;
}

interface Edge {
  readonly from: string;
  readonly to: string;
  /** An unmet requirement, a met one, or order alone. */
  readonly kind: "unmet" | "met" | "after";
}

function edgesOf({ module: from, requires, after }: GraphNode): Edge[] {
  return [
    ...requires.map(({ name, unmet }): Edge => ({ from, to: name, kind: unmet ? "unmet" : "met" })),
    ...after.map((to): Edge => ({ from, to, kind: "after" })),
  ];
}

const DOT = { unmet: " [color=red]", met: "", after: " [style=dashed]" } as const;
const MERMAID = { unmet: "-- unmet -->", met: "-->", after: "-.->" } as const;

function framed(nodes: readonly GraphNode[], format: "dot" | "mermaid"): string[] {
  const edges = nodes.flatMap(edgesOf);
  const states = new Map(nodes.map(({ module, state }) => [module, state]));
  const names = [...new Set([...states.keys(), ...edges.map(({ to }) => to)])];
  const labelOf = (name: string): string => [name, states.get(name)].filter(Boolean).join("\\n");
  if (format === "dot") {
    const quoted = (text: string): string => `"${text.replaceAll('"', "'")}"`;
    return [
      "digraph modules {",
      ...names.map((name) => `  ${quoted(name)} [label=${quoted(labelOf(name))}];`),
      ...edges.map(({ from, to, kind }) => `  ${quoted(from)} -> ${quoted(to)}${DOT[kind]};`),
      "}",
    ];
  }
  const id = (name: string): string => `n${names.indexOf(name)}`;
  return [
    "flowchart LR",
    ...names.map((name) => `  ${id(name)}["${labelOf(name).replace("\\n", ": ").replaceAll('"', "'")}"]`),
    ...edges.map(({ from, to, kind }) => `  ${id(from)} ${MERMAID[kind]} ${id(to)}`),
  ];
}

/** Modules that require each other can never run. */
export function cycleProblem(tree: Tree, name: string): Problem | undefined {
  const cycle = requirementCycle(tree, name);
  if (cycle === undefined) return undefined;
  const dir = tree.modules.find((module) => module.name === name)?.dir ?? "";
  const message = `requires itself: ${cycle.join(" → ")}`;
  return { file: `${dir}/addon.yaml`, key: "requires.modules", message, remedy: "take one of them out" };
}

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
