/** Runs of all modules over one time, which can be zoomed. The list below it tells the same to those who see little. */

import { useRef, useState } from "preact/hooks";

import type { RunRow, SpanRow } from "../src/ui/wire.ts";
import { marksOf, moved, within, zoomed, type Stretch } from "./stretch.ts";
import { duration } from "./words.ts";

interface TimelineProps {
  /** Those within the stretch that is seen. */
  readonly runs: readonly RunRow[];
  readonly seen: Stretch;
  readonly whole: Stretch;
  readonly see: (stretch: Stretch | undefined) => void;
}

const CLOSER = 1 / 2;
const ASIDE = 1 / 4;
/** The kinds of spans that are drawn upon a run. */
const PARTS: ReadonlySet<string> = new Set(["wait", "hook", "helm"]);

export function Timeline(props: TimelineProps) {
  const { seen, whole, see } = props;
  const zoom = (factor: number): void => see(zoomed(seen, { factor }, whole));
  const keys: Readonly<Record<string, () => void>> = {
    "+": () => zoom(CLOSER),
    "-": () => zoom(1 / CLOSER),
    "0": () => see(undefined),
    ArrowLeft: () => see(moved(seen, -ASIDE, whole)),
    ArrowRight: () => see(moved(seen, ASIDE, whole)),
  };
  return (
    <section
      class="timeline"
      tabIndex={0}
      aria-label="Timeline: plus and minus zoom, arrows move, 0 shows all"
      onKeyDown={(event) => {
        if (event.ctrlKey || event.metaKey || keys[event.key] === undefined) return;
        event.preventDefault();
        keys[event.key]?.();
      }}
    >
      <div class="filter">
        <button type="button" class="tone" aria-label="Zoom in" onClick={keys["+"]}>
          +
        </button>
        <button type="button" class="tone" aria-label="Zoom out" onClick={keys["-"]}>
          −
        </button>
        <button type="button" class="tone" onClick={keys["0"]}>
          All
        </button>
        <span class="faint" role="status">
          {props.runs.length} {props.runs.length === 1 ? "run" : "runs"} in{" "}
          {duration((seen.to - seen.from) / 1000)}
        </span>
        {[...PARTS, "failed"].map((name) => (
          <span key={name} class="key">
            <span class={`bar ${name}`} /> {name}
          </span>
        ))}
      </div>
      <Lanes {...props} />
    </section>
  );
}

/** One for each module; drawing over them with the pointer zooms in on what is between. */
function Lanes({ runs, seen, whole, see }: TimelineProps) {
  const tracks = useRef<HTMLDivElement>(null);
  const [brush, setBrush] = useState<Stretch>();
  const timeAt = ({ clientX }: MouseEvent): number => {
    const { left = 0, width = 1 } = tracks.current?.getBoundingClientRect() ?? {};
    return seen.from + ((clientX - left) / width) * (seen.to - seen.from);
  };
  const drawn = brush && { from: Math.min(brush.from, brush.to), to: Math.max(brush.from, brush.to) };
  const letGo = (): void => {
    setBrush(undefined);
    if (drawn !== undefined && drawn.to - drawn.from > (seen.to - seen.from) / 100) see(within(drawn, whole));
  };
  return (
    <div
      class="lanes"
      aria-hidden="true"
      onPointerDown={(event) => setBrush({ from: timeAt(event), to: timeAt(event) })}
      onPointerMove={(event) => brush && setBrush({ from: brush.from, to: timeAt(event) })}
      onPointerUp={letGo}
      onPointerLeave={letGo}
      onWheel={(event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        see(zoomed(seen, { factor: 2 ** (event.deltaY / 200), at: timeAt(event) }, whole));
      }}
    >
      <div class="tracks" ref={tracks}>
        {marksOf(seen).map(([ms, text]) => (
          <span key={ms} class="mark" style={{ left: part(ms, seen) }}>
            {text}
          </span>
        ))}
        {drawn && <span class="brush" style={placeOf({ startMs: drawn.from, endMs: drawn.to }, seen)} />}
      </div>
      {[...Map.groupBy(runs, ({ module, name }) => module ?? name)].map(([lane, all]) => (
        <div key={lane} class="lane">
          <span class="what" title={lane}>
            {lane}
          </span>
          <span class="track">
            {all.map((run) => (
              <Bars key={run.id} run={run} seen={seen} />
            ))}
          </span>
        </div>
      ))}
    </div>
  );
}

/** A run, and upon it the parts that take its time. */
function Bars({ run, seen }: { readonly run: RunRow; readonly seen: Stretch }) {
  const parts = run.spans.filter((span) => PARTS.has(span.kind) && isWithin(span, seen));
  return (
    <>
      <button
        type="button"
        tabIndex={-1}
        class={classOf(run)}
        style={placeOf(run, seen)}
        title={`${run.name}: ${run.error ?? ""}`}
        onClick={() => open(run)}
      />
      {parts.map((span) => (
        <span key={span.id} class={`${classOf(span)} part`} style={placeOf(span, seen)} />
      ))}
    </>
  );
}

/** In the list below. */
function open({ id }: RunRow): void {
  const details = document.querySelector<HTMLDetailsElement>(`#run-${id}`);
  if (details === null) return;
  details.open = true;
  details.querySelector("summary")?.focus();
}

/** Its colour. */
export function classOf({ kind, error }: SpanRow): string {
  return `bar ${error === undefined ? kind : "failed"}`;
}

type Time = Pick<SpanRow, "startMs" | "endMs">;

/** What is not over yet goes on to the end. */
export function isWithin(
  { startMs, endMs = Number.POSITIVE_INFINITY }: Time,
  { from, to }: Stretch,
): boolean {
  return startMs <= to && endMs >= from;
}

/** Where a bar begins and ends. */
export function placeOf({ startMs, endMs }: Time, seen: Stretch): { left: string; right: string } {
  return { left: part(startMs, seen), right: `calc(100% - ${part(endMs ?? seen.to, seen)})` };
}

function part(ms: number, { from, to }: Stretch): string {
  return `${((100 * (Math.min(to, Math.max(from, ms)) - from)) / (to - from)).toFixed(3)}%`;
}
