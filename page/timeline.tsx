/** The runs of all modules on one time axis with zoom. The list below it contains the same data for screen readers. */

import { useRef, useState } from "preact/hooks";

import type { RunRow, SpanRow } from "../src/surface/ui/wire.ts";
import { listTicks, pan, clamp, zoom, type TimeRange } from "./time-range.ts";
import { formatDuration } from "./format.ts";

interface TimelineProps {
  /** The runs within `range`. */
  readonly runs: readonly RunRow[];
  readonly range: TimeRange;
  readonly whole: TimeRange;
  readonly setRange: (range: TimeRange | undefined) => void;
}

const ZOOM_FACTOR = 1 / 2;
const PAN_SHARE = 1 / 4;
/** The kinds of spans drawn on top of a run. */
const DRAWN_KINDS: ReadonlySet<string> = new Set(["wait", "hook", "helm"]);
/** The meaning of the colours by kind. */
const LEGEND = [
  ["wait", "waiting in the queue"],
  ["hook", "hooks"],
  ["helm", "Helm"],
  ["task", "other work"],
  ["failed", "failed"],
] as const;

export function Timeline(props: TimelineProps) {
  const { range, whole, setRange } = props;
  const zoomBy = (factor: number): void => setRange(zoom(range, { factor }, whole));
  const keys: Readonly<Record<string, () => void>> = {
    "+": () => zoomBy(ZOOM_FACTOR),
    "-": () => zoomBy(1 / ZOOM_FACTOR),
    "0": () => setRange(undefined),
    ArrowLeft: () => setRange(pan(range, -PAN_SHARE, whole)),
    ArrowRight: () => setRange(pan(range, PAN_SHARE, whole)),
  };
  return (
    <section
      class="timeline"
      tabIndex={0}
      aria-label="Timeline. To zoom, press plus or minus. To move, press the arrow keys. To show all runs, press 0."
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
          {formatDuration((range.to - range.from) / 1000)}
        </span>
        {LEGEND.map(([kind, meaning]) => (
          <span key={kind} class="key">
            <span class={`bar ${kind}`} /> {meaning}
          </span>
        ))}
      </div>
      <Lanes {...props} />
    </section>
  );
}

/** One lane for each module. Dragging the pointer selects the time range to zoom in on. */
function Lanes({ runs, range, whole, setRange }: TimelineProps) {
  const tracks = useRef<HTMLDivElement>(null);
  const [brush, setBrush] = useState<TimeRange>();
  const timeAt = ({ clientX }: MouseEvent): number => {
    const { left = 0, width = 1 } = tracks.current?.getBoundingClientRect() ?? {};
    return range.from + ((clientX - left) / width) * (range.to - range.from);
  };
  const drawn = brush && { from: Math.min(brush.from, brush.to), to: Math.max(brush.from, brush.to) };
  const applyBrush = (): void => {
    setBrush(undefined);
    if (drawn !== undefined && drawn.to - drawn.from > (range.to - range.from) / 100)
      setRange(clamp(drawn, whole));
  };
  return (
    <div
      class="lanes"
      aria-hidden="true"
      onPointerDown={(event) => setBrush({ from: timeAt(event), to: timeAt(event) })}
      onPointerMove={(event) => brush && setBrush({ from: brush.from, to: timeAt(event) })}
      onPointerUp={applyBrush}
      onPointerLeave={applyBrush}
      onWheel={(event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        setRange(zoom(range, { factor: 2 ** (event.deltaY / 200), at: timeAt(event) }, whole));
      }}
    >
      <div class="tracks" ref={tracks}>
        {listTicks(range).map(([ms, text]) => (
          <span key={ms} class="mark" style={{ left: toPercent(ms, range) }}>
            {text}
          </span>
        ))}
        {drawn && <span class="brush" style={barPosition({ startMs: drawn.from, endMs: drawn.to }, range)} />}
      </div>
      {[...Map.groupBy(runs, ({ module, name }) => module ?? name)].map(([lane, all]) => (
        <div key={lane} class="lane">
          <span class="what" title={lane}>
            {lane}
          </span>
          <span class="track">
            {all.map((run) => (
              <Bars key={run.id} run={run} range={range} />
            ))}
          </span>
        </div>
      ))}
    </div>
  );
}

/** A run and the spans drawn on top of it. */
function Bars({ run, range }: { readonly run: RunRow; readonly range: TimeRange }) {
  const parts = run.spans.filter((span) => DRAWN_KINDS.has(span.kind) && overlaps(span, range));
  return (
    <>
      <button
        type="button"
        tabIndex={-1}
        class={barClass(run)}
        style={barPosition(run, range)}
        title={`${run.name}: ${run.error ?? ""}`}
        onClick={() => openRun(run)}
      />
      {parts.map((span) => (
        <span key={span.id} class={`${barClass(span)} part`} style={barPosition(span, range)} />
      ))}
    </>
  );
}

/** Opens the details of a run in the list below. */
function openRun({ id }: RunRow): void {
  const details = document.querySelector<HTMLDetailsElement>(`#run-${id}`);
  if (details === null) return;
  details.open = true;
  details.querySelector("summary")?.focus();
}

/** The CSS class of a bar, which gives its colour. */
export function barClass({ kind, error }: SpanRow): string {
  return `bar ${error === undefined ? kind : "failed"}`;
}

type Interval = Pick<SpanRow, "startMs" | "endMs">;

/** Whether a span lies at least partly in the range; an unfinished span has no end. */
export function overlaps(
  { startMs, endMs = Number.POSITIVE_INFINITY }: Interval,
  { from, to }: TimeRange,
): boolean {
  return startMs <= to && endMs >= from;
}

/** The CSS position of a bar. */
export function barPosition({ startMs, endMs }: Interval, range: TimeRange): { left: string; right: string } {
  return { left: toPercent(startMs, range), right: `calc(100% - ${toPercent(endMs ?? range.to, range)})` };
}

/** The horizontal position of a time within the range, as a CSS length; times outside are moved to its ends. */
function toPercent(ms: number, { from, to }: TimeRange): string {
  return `${((100 * (Math.min(to, Math.max(from, ms)) - from)) / (to - from)).toFixed(3)}%`;
}
