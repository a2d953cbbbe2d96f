/** What requires what: modules from left to right, each right of what it requires. */

import { useMemo, useState } from "preact/hooks";

import type { GraphNode } from "../src/ui/wire.ts";
import { NotYet, useAsked } from "./asked.tsx";
import { edgesOf, layout, related, type Edge, type Place } from "./graph-layout.ts";
import { modules } from "./live.ts";
import { route, search, to } from "./router.ts";
import { State } from "./state.tsx";

/** More than these nobody can follow. */
const MOST_DRAWN = 150;

interface Drawn {
  readonly edges: readonly Edge[];
  readonly places: ReadonlyMap<string, Place>;
  /** Related modules there was no room for. */
  readonly more: number;
  /** Modules that have nothing to do with others. */
  readonly alone: number;
}

export function Graph() {
  const asked = useAsked("graph", {}, modules.value);
  const [, words = ""] = route.value;
  const { text = "[]" } = asked;
  const drawn = useMemo(() => drawnOf(JSON.parse(text) as readonly GraphNode[], words), [text, words]);
  if (asked.text === undefined) return <NotYet {...asked} />;
  return (
    <>
      <h2 class="unseen">Graph</h2>
      <Legend {...drawn} words={words} />
      {drawn.places.size > 0 && <Drawing {...drawn} />}
    </>
  );
}

/** A module of this name, else those whose names have these letters, with all that is related to them. */
function drawnOf(nodes: readonly GraphNode[], words: string): Drawn {
  const edges = edgesOf(nodes);
  const names = new Set(edges.flatMap(({ from, to }) => [from, to]));
  const chosen = names.has(words) ? [words] : [...names].filter((name) => name.includes(words));
  const found = related(chosen, edges);
  const seen = new Set(found.slice(0, MOST_DRAWN));
  const among = edges.filter(({ from, to }) => seen.has(from) && seen.has(to));
  return {
    edges: among,
    places: layout([...seen], among),
    more: found.length - seen.size,
    alone: nodes.filter(({ name }) => !names.has(name)).length,
  };
}

function Legend({ places, more, alone, words }: Drawn & { readonly words: string }) {
  return (
    <div class="filter" role="search">
      <input
        type="search"
        id="search"
        aria-label="Find modules"
        placeholder="Find modules  /"
        value={words}
        onInput={({ currentTarget }) => search("graph", currentTarget.value)}
      />
      <span class="key line">requires</span>
      <span class="key line unmet">not met</span>
      <span class="key line after">comes after</span>
      <span class="faint" role="status">
        {[
          places.size === 0 && (words === "" ? "No module requires another." : "None of them is like that."),
          more > 0 && `${more} more are related: find one to see what has to do with it.`,
          alone > 0 && `${alone} ${alone === 1 ? "module has" : "modules have"} no requirements.`,
        ]
          .filter(Boolean)
          .join(" ")}
      </span>
    </div>
  );
}

const LEVEL_PX = 250;
const LINE_PX = 40;
/** Of a module, as in the style sheet. */
const WIDTH_PX = 180;
const HEIGHT_PX = 28;
const GAP_PX = LEVEL_PX - WIDTH_PX;
const EDGE_PX = 16;

const leftOf = ({ level }: Place): number => EDGE_PX + level * LEVEL_PX;
const topOf = ({ line }: Place): number => EDGE_PX + line * LINE_PX;

function Drawing({ edges, places }: Drawn) {
  /** The module that is looked at: what it has to do with others stands out. */
  const [at, setAt] = useState("");
  const all = [...places.values()];
  const width = Math.max(...all.map(leftOf)) + WIDTH_PX + EDGE_PX;
  const height = Math.max(...all.map(topOf)) + HEIGHT_PX + EDGE_PX;
  return (
    <div class="graph">
      <svg width={width} height={height} aria-hidden="true">
        {edges.map((edge) => (
          <path
            key={`${edge.from} ${edge.to} ${edge.kind}`}
            class={`${edge.kind} ${edge.from === at || edge.to === at ? "near" : ""}`}
            d={line(places.get(edge.to), places.get(edge.from))}
          />
        ))}
      </svg>
      <ol
        aria-label="Modules, each after what it requires"
        onKeyDown={(event) => walk(event, { edges, places })}
      >
        {[...places].map(([name, place]) => (
          <li
            key={name}
            style={{ left: `${leftOf(place)}px`, top: `${topOf(place)}px` }}
            onFocusIn={() => setAt(name)}
            onMouseEnter={() => setAt(name)}
            onMouseLeave={() => setAt("")}
          >
            <Node name={name} />
            <span class="unseen">{inWords(name, edges)}</span>
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
      <span class="node" title={`There is no module "${name}"`}>
        <State name="Gone" text={name} />
      </span>
    );
  return (
    <a
      class="node"
      href={to("module", name)}
      data-name={name}
      title={`${name}: ${row.state}: ${row.message}`}
    >
      <State name={row.state} text={name} />
    </a>
  );
}

/** From the right of what is required to the left of what requires it, between modules that stand on the way. */
function line(from: Place | undefined, to: Place | undefined): string {
  if (from === undefined || to === undefined) return "";
  const [x1, y1] = [leftOf(from) + WIDTH_PX, topOf(from) + HEIGHT_PX / 2];
  const [x2, y2] = [leftOf(to), topOf(to) + HEIGHT_PX / 2];
  const [out, into] = [x1 + GAP_PX / 2, x2 - GAP_PX / 2];
  if (to.level === from.level + 1) return `M${x1} ${y1}C${out} ${y1} ${into} ${y2} ${x2} ${y2}`;
  const between = y1 + (y2 > y1 ? LINE_PX : -LINE_PX) / 2;
  const bend = to.level > from.level ? GAP_PX : 0;
  return `M${x1} ${y1}C${out} ${y1} ${out} ${between} ${x1 + bend} ${between}H${x2 - bend}C${into} ${between} ${into} ${y2} ${x2} ${y2}`;
}

/** What the lines tell. */
function inWords(name: string, edges: readonly Edge[]): string {
  const state = modules.value?.get(name)?.state ?? "not there";
  const own = edges.filter(({ from }) => from === name);
  const list = (kind: Edge["kind"]): string =>
    own.flatMap((edge) => (edge.kind === kind ? edge.to : [])).join(", ");
  const by = edges.flatMap((edge) => (edge.to === name && edge.kind !== "after" ? edge.from : [])).join(", ");
  return [
    state,
    list("met") && `requires ${list("met")}`,
    list("unmet") && `requires, not met, ${list("unmet")}`,
    list("after") && `comes after ${list("after")}`,
    by && `required by ${by}`,
  ]
    .filter(Boolean)
    .join("; ");
}

/** Up and down within a level, left and right along the lines. */
function walk(event: KeyboardEvent, { edges, places }: Pick<Drawn, "edges" | "places">): void {
  const { target, currentTarget, key } = event;
  if (!(target instanceof HTMLElement) || !(currentTarget instanceof HTMLElement)) return;
  const name = target.dataset["name"] ?? "";
  const placeOf = (each: string): Place => places.get(each) ?? { level: 0, line: 0 };
  const { level, line } = placeOf(name);
  const beside = [...places.keys()].filter((each) => placeOf(each).level === level);
  const ways: Readonly<Record<string, readonly string[]>> = {
    ArrowUp: beside.filter((each) => placeOf(each).line < line),
    ArrowDown: beside.filter((each) => placeOf(each).line > line),
    ArrowLeft: edges.flatMap(({ from, to }) => (from === name ? to : [])),
    ArrowRight: edges.flatMap(({ from, to }) => (to === name ? from : [])),
  };
  const way = ways[key];
  if (way === undefined) return;
  event.preventDefault();
  const far = (each: string): number =>
    Math.abs(placeOf(each).line - line) + Math.abs(placeOf(each).level - level);
  const [next] = way.toSorted((a, b) => far(a) - far(b));
  const links = [...currentTarget.querySelectorAll("a")];
  links.find(({ dataset }) => dataset["name"] === next)?.focus();
}
