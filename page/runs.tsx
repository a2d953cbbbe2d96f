/** The last runs on a timeline, and each with its spans and log lines. */

import { useMemo, useState } from "preact/hooks";

import type { PageModuleRow, RunDetail, RunRow, SpanRow } from "../src/surface/ui/wire.ts";
import { Pending, useFetched } from "./fetched.tsx";
import { modules, now, queues } from "./live.ts";
import { buildHref } from "./router.ts";
import { State } from "./state.tsx";
import type { TimeRange } from "./time-range.ts";
import { Timeline, barClass, overlaps, barPosition } from "./timeline.tsx";
import { formatAge, formatDuration } from "./format.ts";

export function Runs() {
  return (
    <>
      <h2 class="visually-hidden">Runs</h2>
      <RunList query={{}} />
    </>
  );
}

export function ModuleRuns({ row }: { readonly row: PageModuleRow }) {
  return <RunList query={{ name: row.name }} />;
}

function RunList({ query }: { readonly query: Readonly<Record<string, string>> }) {
  const isRunning = [...queues.value.values()].some(({ tasks }) => tasks.some(({ running }) => running));
  const response = useFetched("runs", query, queues.value, isRunning && now.value);
  const [zoom, setZoom] = useState<TimeRange>();
  const { text = "[]" } = response;
  const runs = useMemo(() => JSON.parse(text) as readonly RunRow[], [text]);
  if (response.text === undefined) return <Pending {...response} />;
  if (runs.length === 0)
    return (
      <p class="hint">
        The operator has no record of a run. Either no run has started, or the operator has discarded old
        runs.
      </p>
    );
  const whole = fullRange(runs);
  const range = zoom ?? whole;
  const displayed = runs.filter((run) => overlaps(run, range));
  return (
    <>
      <Timeline runs={displayed} range={range} whole={whole} setRange={setZoom} />
      <ol class="runs" aria-label="Runs, the newest first">
        {displayed.map((run) => (
          <Run key={run.id} run={run} />
        ))}
      </ol>
    </>
  );
}

function fullRange(runs: readonly RunRow[]): TimeRange {
  const from = Math.min(...runs.map(({ startMs }) => startMs));
  return { from, to: Math.max(from + 1, ...runs.map(({ endMs }) => endMs ?? now.value)) };
}

function runState({ endMs, error }: RunRow): { name: string; text: string } {
  if (error !== undefined) return { name: "Failed", text: "failed" };
  return endMs === undefined ? { name: "Running", text: "running" } : { name: "Ready", text: "done" };
}

function Run({ run }: { readonly run: RunRow }) {
  const { name, module, from, startMs, endMs, error } = run;
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <details id={`run-${run.id}`} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>
          <State {...runState(run)} />
          <span class="what">{name}</span>
          <span class="faint cause">after {from}</span>
          <span class="faint">
            {endMs === undefined ? "for" : `${formatAge(startMs, now.value)}, took`}{" "}
            {formatDuration(((endMs ?? now.value) - startMs) / 1000)}
          </span>
        </summary>
        <p class="faint">
          {module !== undefined && modules.value?.has(module) === true && (
            <a href={buildHref("module", module)}>Module {module}</a>
          )}
        </p>
        {error !== undefined && <p class="error-text">{error}</p>}
        {isOpen && <Parts run={run} />}
        {isOpen && <LogLines run={run} />}
      </details>
    </li>
  );
}

/** The spans of a run as bars; a click zooms in on a span. */
function Parts({ run }: { readonly run: RunRow }) {
  const [zoom, setZoom] = useState<string>();
  const all: readonly SpanRow[] = [run, ...run.spans.toSorted((a, b) => a.startMs - b.startMs)];
  const { startMs: from, endMs } = all.find(({ id }) => id === zoom) ?? run;
  const range = { from, to: Math.max(from + 1, endMs ?? now.value) };
  return (
    <ol class="spans" aria-label="Parts of the run">
      {all
        .filter((span) => overlaps(span, range))
        .map((span) => (
          <li key={span.id}>
            <button
              type="button"
              aria-pressed={zoom === span.id}
              onClick={() => setZoom(zoom === span.id ? undefined : span.id)}
            >
              <span class="faint kind">{span.kind}</span> {span.name}
            </button>
            <span class="track">
              <span class={barClass(span)} style={barPosition(span, range)} />
            </span>
            <span class="faint number">
              {formatDuration(((span.endMs ?? range.to) - span.startMs) / 1000)}
            </span>
          </li>
        ))}
    </ol>
  );
}

function LogLines({ run }: { readonly run: RunRow }) {
  const response = useFetched("run", { id: run.id }, run);
  if (response.text === undefined) return <Pending {...response} />;
  const { lines, dropped } = JSON.parse(response.text) as RunDetail;
  if (lines.length === 0) return <p class="faint">The run has no log lines.</p>;
  return (
    <pre class="diff" tabIndex={0} aria-label="Log lines">
      {dropped > 0 && <span class="faint">… the operator has discarded {dropped} older spans and lines</span>}
      {lines.map(({ timeMs, level, text }, index) => (
        <span key={index} class={level === "error" ? "out" : undefined}>
          {new Date(timeMs).toISOString().slice(11, 23)} {level.padEnd(5)} {text}
        </span>
      ))}
    </pre>
  );
}
