/** The last runs: over their time, and each with what it was made of and its log lines. */

import { useMemo, useState } from "preact/hooks";

import type { ModuleRow, RunDetail, RunRow, SpanRow } from "../src/ui/wire.ts";
import { NotYet, useAsked } from "./asked.tsx";
import { modules, now, queues } from "./live.ts";
import { to } from "./router.ts";
import { State } from "./state.tsx";
import type { Stretch } from "./stretch.ts";
import { Timeline, classOf, isWithin, placeOf } from "./timeline.tsx";
import { ago, duration } from "./words.ts";

/** Of all modules. */
export function Runs() {
  return (
    <>
      <h2 class="unseen">Runs</h2>
      <RunList query={{}} />
    </>
  );
}

/** Of one. */
export function RunsOf({ row }: { readonly row: ModuleRow }) {
  return <RunList query={{ name: row.name }} />;
}

function RunList({ query }: { readonly query: Readonly<Record<string, string>> }) {
  const isAtWork = [...queues.value.values()].some(({ tasks }) => tasks.some(({ running }) => running));
  const asked = useAsked("runs", query, queues.value, isAtWork && now.value);
  const [zoom, see] = useState<Stretch>();
  const { text = "[]" } = asked;
  const runs = useMemo(() => JSON.parse(text) as readonly RunRow[], [text]);
  if (asked.text === undefined) return <NotYet {...asked} />;
  if (runs.length === 0)
    return <p class="hint">Nothing has run since the operator started, or it is long ago.</p>;
  const whole = wholeOf(runs);
  const seen = zoom ?? whole;
  const shown = runs.filter((run) => isWithin(run, seen));
  return (
    <>
      <Timeline runs={shown} seen={seen} whole={whole} see={see} />
      <ol class="runs" aria-label="Runs, the newest first">
        {shown.map((run) => (
          <Run key={run.id} run={run} />
        ))}
      </ol>
    </>
  );
}

function wholeOf(runs: readonly RunRow[]): Stretch {
  const from = Math.min(...runs.map(({ startMs }) => startMs));
  return { from, to: Math.max(from + 1, ...runs.map(({ endMs }) => endMs ?? now.value)) };
}

function Run({ run }: { readonly run: RunRow }) {
  const { name, module, from, startMs, endMs, error } = run;
  const [isOpen, setOpen] = useState(false);
  const [state, text] =
    error === undefined
      ? endMs === undefined
        ? ["Running", "runs"]
        : ["Ready", "done"]
      : ["Failed", "failed"];
  return (
    <li>
      <details id={`run-${run.id}`} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>
          <State name={state} text={text} />
          <span class="what">{name}</span>
          <span class="faint">
            {ago(startMs, now.value)}, {duration(((endMs ?? now.value) - startMs) / 1000)}
          </span>
        </summary>
        <p class="faint">
          After {from}
          {module !== undefined && modules.value?.has(module) === true && (
            <>
              {" · "}
              <a href={to("module", module)}>{module}</a>
            </>
          )}
        </p>
        {error !== undefined && <p class="trouble">{error}</p>}
        {isOpen && <Parts run={run} />}
        {isOpen && <Lines run={run} />}
      </details>
    </li>
  );
}

/** Bars of the parts over the time of the run; a part is zoomed into by choosing it. */
function Parts({ run }: { readonly run: RunRow }) {
  const [zoom, setZoom] = useState<string>();
  const all: readonly SpanRow[] = [run, ...run.spans.toSorted((a, b) => a.startMs - b.startMs)];
  const { startMs: from, endMs } = all.find(({ id }) => id === zoom) ?? run;
  const seen = { from, to: Math.max(from + 1, endMs ?? now.value) };
  return (
    <ol class="spans" aria-label="Parts of the run">
      {all
        .filter((span) => isWithin(span, seen))
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
              <span class={classOf(span)} style={placeOf(span, seen)} />
            </span>
            <span class="faint number">{duration(((span.endMs ?? seen.to) - span.startMs) / 1000)}</span>
          </li>
        ))}
    </ol>
  );
}

function Lines({ run }: { readonly run: RunRow }) {
  const asked = useAsked("run", { id: run.id }, run);
  if (asked.text === undefined) return <NotYet {...asked} />;
  const { lines, dropped } = JSON.parse(asked.text) as RunDetail;
  if (lines.length === 0) return <p class="faint">It has logged nothing.</p>;
  return (
    <pre class="diff" tabIndex={0} aria-label="Log lines">
      {dropped > 0 && <span class="faint">… {dropped} older parts and lines were not kept</span>}
      {lines.map(({ timeMs, level, text }, index) => (
        <span key={index} class={level === "error" ? "out" : undefined}>
          {new Date(timeMs).toISOString().slice(11, 23)} {level.padEnd(5)} {text}
        </span>
      ))}
    </pre>
  );
}
