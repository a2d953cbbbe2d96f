/**
 * The graph of requirements as data, text and drawings (docs/reference/modules.md, "What a module requires"). Nodes are modules, and
 * the objects and the Kubernetes version that they require; `after` names modules that only come earlier.
 */

import type { Json } from "../../base/model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { listRequirements, type Requirement } from "./run-readiness.ts";

/** A module in the graph of requirements. */
interface GraphNode {
  readonly module: string;
  readonly state: string;
  readonly requires: readonly Requirement[];
  readonly after: readonly string[];
}

type GraphFormat = "text" | "dot" | "mermaid";

/** All modules in their order, each with its state (as `stateOf` displays it) and what it requires. */
export function buildGraph(view: View, stateOf: (module: ModuleView) => string): GraphNode[] {
  return [...view.modules.values()].map((module) => ({
    module: module.name,
    state: stateOf(module),
    requires: listRequirements(module, view),
    after: module.module.after ?? [],
  }));
}

/** The graph of requirements as JSON. */
export function graphToJson(nodes: readonly GraphNode[]): Json {
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

/** The graph of requirements as plain text, or as a drawing for Graphviz or Mermaid. */
export function drawGraph(nodes: readonly GraphNode[], format: GraphFormat): string {
  const lines = format === "text" ? nodes.map(formatNode) : drawNodesAndEdges(nodes, format);
  return `${lines.join("\n")}\n`;
}

/** One line of the text format, e.g. *web: Ready; requires db (is disabled)*. */
function formatNode({ module, state, requires, after }: GraphNode): string {
  const requirements = requires.map(({ name, unmet }) => (unmet ? `${name} (${unmet.message})` : name));
  const parts = [state];
  if (requirements.length > 0) parts.push(`requires ${requirements.join(", ")}`);
  if (after.length > 0) parts.push(`after ${after.join(", ")}`);
  return `${module}: ${parts.join("; ")}`;
}

interface Edge {
  readonly from: string;
  readonly to: string;
  /** An unmet requirement, a met one, or order alone. */
  readonly kind: "unmet" | "met" | "after";
}

/** The edges from a module to those that it requires or runs after. */
function listEdges({ module: from, requires, after }: GraphNode): Edge[] {
  return [
    ...requires.map(({ name, unmet }): Edge => ({ from, to: name, kind: unmet ? "unmet" : "met" })),
    ...after.map((to): Edge => ({ from, to, kind: "after" })),
  ];
}

const DOT_EDGES = { unmet: " [color=red]", met: "", after: " [style=dashed]" } as const;
const MERMAID_ARROWS = { unmet: "-- unmet -->", met: "-->", after: "-.->" } as const;

/** The lines of a Graphviz or Mermaid drawing: nodes (modules with their states, and required objects), then edges. */
function drawNodesAndEdges(nodes: readonly GraphNode[], format: "dot" | "mermaid"): string[] {
  const edges = nodes.flatMap(listEdges);
  const states = new Map(nodes.map(({ module, state }) => [module, state]));
  const names = [...new Set([...states.keys(), ...edges.map(({ to }) => to)])];
  // Graphviz reads `\n` as a line break.
  const labelOf = (name: string): string => [name, states.get(name)].filter(Boolean).join("\\n");
  if (format === "dot") {
    const quote = (text: string): string => `"${text.replaceAll('"', "'")}"`;
    return [
      "digraph modules {",
      ...names.map((name) => `  ${quote(name)} [label=${quote(labelOf(name))}];`),
      ...edges.map(({ from, to, kind }) => `  ${quote(from)} -> ${quote(to)}${DOT_EDGES[kind]};`),
      "}",
    ];
  }
  // A Mermaid id must not contain characters such as `/`.
  const nodeId = (name: string): string => `n${names.indexOf(name)}`;
  return [
    "flowchart LR",
    ...names.map((name) => `  ${nodeId(name)}["${labelOf(name).replace("\\n", ": ").replaceAll('"', "'")}"]`),
    ...edges.map(({ from, to, kind }) => `  ${nodeId(from)} ${MERMAID_ARROWS[kind]} ${nodeId(to)}`),
  ];
}
