/** The last runs as a timeline, each with what it was made of and its log lines. */

import { useState } from "preact/hooks";

import type { LogRow, ModuleRow, RunRow, SpanRow } from "../src/ui/wire.ts";
import { NotYet, useAsked } from "./asked.tsx";
import { modules, now, queues } from "./live.ts";
import { to } from "./router.ts";
import { State } from "./state.tsx";
import { ago, duration } from "./words.ts";

/** Of all modules. */
export function Runs() {
  return (
    <>
      <h2 class="unseen">Runs</h2>
      <RunList query={{}} version={queues.value} />
    </>
  );
}

/** Of one. */
export function RunsOf({ row }: { readonly row: ModuleRow }) {
  return <RunList query={{ name: row.name }} version={row.lastRun} />;
}

function RunList({
  query,
  version,
}: {
  readonly query: Readonly<Record<string, string>>;
  readonly version: unknown;
}) {
  const asked = useAsked("runs", query, version);
  if (asked.text === undefined) return <NotYet {...asked} />;
  const runs = JSON.parse(asked.text) as readonly RunRow[];
  if (runs.length === 0)
    return <p class="hint">Nothing has run since the operator started, or it is long ago.</p>;
  return (
    <ol class="runs" aria-label="Runs, the newest first">
      {runs.map((run) => (
        <Run key={run.id} run={run} />
      ))}
    </ol>
  );
}

function Run({ run }: { readonly run: RunRow }) {
  const { name, module, from, startMs, endMs, error } = run;
  const [state, text] =
    error === undefined
      ? endMs === undefined
        ? ["Running", "runs"]
        : ["Ready", "done"]
      : ["Failed", "failed"];
  return (
    <li>
      <details>
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
        <Timeline run={run} />
        <Lines {...run} />
      </details>
    </li>
  );
}

/** Bars of the parts over the time of the run; a part is zoomed into by choosing it. */
function Timeline({ run }: { readonly run: RunRow }) {
  const [zoom, setZoom] = useState<string>();
  const all: readonly SpanRow[] = [run, ...run.spans.toSorted((a, b) => a.startMs - b.startMs)];
  const shown = all.find(({ id }) => id === zoom) ?? run;
  const [from, end] = [shown.startMs, Math.max(shown.startMs + 1, shown.endMs ?? now.value)];
  const part = (ms: number): string =>
    `${((100 * (Math.min(end, Math.max(from, ms)) - from)) / (end - from)).toFixed(3)}%`;
  const seen = all.filter((span) => span.startMs <= end && (span.endMs ?? end) >= from);
  return (
    <ol class="timeline" aria-label="Parts of the run">
      {seen.map((span) => (
        <li key={span.id}>
          <button
            type="button"
            aria-pressed={zoom === span.id}
            onClick={() => setZoom(zoom === span.id ? undefined : span.id)}
          >
            <span class="faint kind">{span.kind}</span> {span.name}
          </button>
          <span class="track">
            <span
              class={`bar ${span.error === undefined ? span.kind : "failed"}`}
              style={{ left: part(span.startMs), right: `calc(100% - ${part(span.endMs ?? end)})` }}
            />
          </span>
          <span class="faint number">{duration(((span.endMs ?? end) - span.startMs) / 1000)}</span>
        </li>
      ))}
    </ol>
  );
}

function Lines({ lines, dropped }: { readonly lines: readonly LogRow[]; readonly dropped: number }) {
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
