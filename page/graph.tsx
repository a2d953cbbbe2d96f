/** The graph of requirements: each module stands right of the modules that it requires. */

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { GraphNode } from "../src/surface/ui/wire.ts";
import { Pending, useFetched } from "./fetched.tsx";
import { listEdges, layout, findRelatedModules, type Edge, type NodePosition } from "./graph-layout.ts";
import { modules } from "./live.ts";
import { previousModule, route, replaceRoute, buildHref, focusFirstResult } from "./router.ts";
import { Search, State } from "./state.tsx";

/** A larger drawing would not be legible. */
const MAX_NODES = 150;

interface GraphView {
  readonly edges: readonly Edge[];
  readonly places: ReadonlyMap<string, NodePosition>;
  /** Number of related modules beyond MAX_NODES. */
  readonly omitted: number;
  /** Number of modules without requirements that no module requires. */
  readonly unrelated: number;
}

export function Graph() {
  const response = useFetched("graph", {}, modules.value);
  const [, words = ""] = route.value;
  const { text = "[]" } = response;
  const view = useMemo(() => selectNodes(JSON.parse(text) as readonly GraphNode[], words), [text, words]);
  if (response.text === undefined) return <Pending {...response} />;
  return (
    <>
      <h2 class="visually-hidden">Graph</h2>
      <Legend {...view} words={words} />
      {view.places.size > 0 && <Drawing {...view} />}
    </>
  );
}

/** Selects the module of this name, or all whose names contain the text, with all related modules. */
function selectNodes(nodes: readonly GraphNode[], words: string): GraphView {
  const edges = listEdges(nodes);
  const names = new Set(edges.flatMap(({ from, to }) => [from, to]));
  const chosen = names.has(words) ? [words] : [...names].filter((name) => name.includes(words));
  const found = findRelatedModules(chosen, edges);
  const nodesInView = new Set(found.slice(0, MAX_NODES));
  const edgesInView = edges.filter(({ from, to }) => nodesInView.has(from) && nodesInView.has(to));
  return {
    edges: edgesInView,
    places: layout([...nodesInView], edgesInView),
    omitted: found.length - nodesInView.size,
    unrelated: nodes.filter(({ name }) => !names.has(name)).length,
  };
}

function Legend({ places, omitted, unrelated, words }: GraphView & { readonly words: string }) {
  return (
    <div class="filter" role="search">
      <Search
        label="Find modules"
        value={words}
        onText={(text) => replaceRoute("graph", text)}
        onKeyDown={focusFirstResult}
      />
      <span class="key line">requires</span>
      <span class="key line unmet">not met</span>
      <span class="key line after">runs after</span>
      <span class="faint" role="status">
        {[
          places.size === 0 && (words === "" ? "No module requires another." : "No module matches."),
          omitted > 0 &&
            `The graph omits ${omitted} related modules. To see a module with its relations, search for its name.`,
          unrelated > 0 && `${unrelated} ${unrelated === 1 ? "module has" : "modules have"} no requirements.`,
        ]
          .filter(Boolean)
          .join(" ")}
      </span>
    </div>
  );
}

const LEVEL_PX = 250;
const LINE_PX = 40;
/** The size of a node, as in the style sheet. */
const WIDTH_PX = 180;
const HEIGHT_PX = 28;
const GAP_PX = LEVEL_PX - WIDTH_PX;
const EDGE_PX = 16;

const getLeftPx = ({ level }: NodePosition): number => EDGE_PX + level * LEVEL_PX;
const getTopPx = ({ line }: NodePosition): number => EDGE_PX + line * LINE_PX;

function Drawing({ edges, places }: GraphView) {
  /** The module under the pointer or focus; its edges are highlighted. */
  const [at, setAt] = useState("");
  const list = useRef<HTMLOListElement>(null);
  useLayoutEffect(() => {
    list.current?.querySelector<HTMLElement>(`[data-name="${CSS.escape(previousModule ?? "")}"]`)?.focus();
  }, []);
  const all = [...places.values()];
  const width = Math.max(...all.map(getLeftPx)) + WIDTH_PX + EDGE_PX;
  const height = Math.max(...all.map(getTopPx)) + HEIGHT_PX + EDGE_PX;
  return (
    <div class="graph">
      <svg width={width} height={height} aria-hidden="true">
        {edges.map((edge) => (
          <path
            key={`${edge.from} ${edge.to} ${edge.kind}`}
            class={`${edge.kind} ${edge.from === at || edge.to === at ? "near" : ""}`}
            d={buildEdgePath(places.get(edge.to), places.get(edge.from))}
          />
        ))}
      </svg>
      <ol
        ref={list}
        aria-label="Modules, each after the modules that it requires"
        onKeyDown={(event) => moveFocus(event, { edges, places })}
      >
        {[...places].map(([name, place]) => (
          <li
            key={name}
            style={{ left: `${getLeftPx(place)}px`, top: `${getTopPx(place)}px` }}
            onFocusIn={() => setAt(name)}
            onMouseEnter={() => setAt(name)}
            onMouseLeave={() => setAt("")}
          >
            <Node name={name} />
            <span class="visually-hidden">{describeNode(name, edges)}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}

function Node({ name }: { readonly name: string }) {
  const row = modules.value?.get(name);
  if (row === undefined)
    return (
      <span class="node" title={`Module "${name}" does not exist`}>
        <State name="Missing" text={name} />
      </span>
    );
  return (
    <a
      class="node"
      href={buildHref("module", name)}
      data-name={name}
      title={`${name}: ${row.state}: ${row.message}`}
    >
      <State name={row.state} text={name} />
    </a>
  );
}

/** An SVG path from the required module to the requiring one; between distant levels it runs between the lines. */
function buildEdgePath(from: NodePosition | undefined, to: NodePosition | undefined): string {
  if (from === undefined || to === undefined) return "";
  const [x1, y1] = [getLeftPx(from) + WIDTH_PX, getTopPx(from) + HEIGHT_PX / 2];
  const [x2, y2] = [getLeftPx(to), getTopPx(to) + HEIGHT_PX / 2];
  const [out, into] = [x1 + GAP_PX / 2, x2 - GAP_PX / 2];
  if (to.level === from.level + 1) return `M${x1} ${y1}C${out} ${y1} ${into} ${y2} ${x2} ${y2}`;
  const between = y1 + (y2 > y1 ? LINE_PX : -LINE_PX) / 2;
  const bend = to.level > from.level ? GAP_PX : 0;
  return `M${x1} ${y1}C${out} ${y1} ${out} ${between} ${x1 + bend} ${between}H${x2 - bend}C${into} ${between} ${into} ${y2} ${x2} ${y2}`;
}

/** The edges of a module as text for screen readers. */
function describeNode(name: string, edges: readonly Edge[]): string {
  const state = modules.value?.get(name)?.state ?? "does not exist";
  const own = edges.filter(({ from }) => from === name);
  const list = (kind: Edge["kind"]): string =>
    own.flatMap((edge) => (edge.kind === kind ? edge.to : [])).join(", ");
  const by = edges.flatMap((edge) => (edge.to === name && edge.kind !== "after" ? edge.from : [])).join(", ");
  return [
    state,
    list("met") && `requires ${list("met")}`,
    list("unmet") && `unmet requirements: ${list("unmet")}`,
    list("after") && `runs after ${list("after")}`,
    by && `required by ${by}`,
  ]
    .filter(Boolean)
    .join("; ");
}

/** Arrow keys move the focus: up and down within a level, left and right along the edges. */
function moveFocus(event: KeyboardEvent, { edges, places }: Pick<GraphView, "edges" | "places">): void {
  const { target, currentTarget, key } = event;
  if (!(target instanceof HTMLElement) || !(currentTarget instanceof HTMLElement)) return;
  const name = target.dataset["name"] ?? "";
  const getPosition = (each: string): NodePosition => places.get(each) ?? { level: 0, line: 0 };
  const { level, line } = getPosition(name);
  const beside = [...places.keys()].filter((each) => getPosition(each).level === level);
  const candidates: Readonly<Record<string, readonly string[]>> = {
    ArrowUp: beside.filter((each) => getPosition(each).line < line),
    ArrowDown: beside.filter((each) => getPosition(each).line > line),
    ArrowLeft: edges.flatMap(({ from, to }) => (from === name ? to : [])),
    ArrowRight: edges.flatMap(({ from, to }) => (to === name ? from : [])),
  };
  const reachable = candidates[key];
  if (reachable === undefined) return;
  event.preventDefault();
  const distance = (each: string): number =>
    Math.abs(getPosition(each).line - line) + Math.abs(getPosition(each).level - level);
  const [next] = reachable.toSorted((a, b) => distance(a) - distance(b));
  const links = [...currentTarget.querySelectorAll("a")];
  links.find(({ dataset }) => dataset["name"] === next)?.focus();
}
