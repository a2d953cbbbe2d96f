/** The last runs of tasks as the page draws them; secrets are still in the texts. */

import { logMessage } from "../lib/index.ts";
import type { RunRing, RunView, Span } from "../trace/index.ts";
import type { RunDetail, RunRow, SpanRow } from "./wire.ts";

/** Of all, the newest: nobody looks at more. */
const MOST_RUNS = 100;

/** The last runs, of one module or of all, the newest first. */
export function runRows(runs: Pick<RunRing, "views">, module: string | undefined): RunRow[] {
  return runs.views({ module, newest: MOST_RUNS }).runs.reverse().map(runRow);
}

/** What the run with this id has logged; undefined where it is not kept any more. */
export function runDetail(runs: Pick<RunRing, "view">, id: string): RunDetail | undefined {
  const run = runs.view(id);
  return run && { lines: (run.lines ?? []).map(logRow), dropped: run.dropped };
}

function runRow({ task, from, spans }: RunView): RunRow {
  const { module } = task.attributes;
  return {
    ...spanRow(task),
    ...(typeof module === "string" && { module }),
    from: from.name,
    spans: spans.map(spanRow),
  };
}

function spanRow({ spanId: id, parentId: parent, kind, name, startMs, endMs, error }: Span): SpanRow {
  return {
    id,
    kind,
    name,
    startMs,
    ...(parent !== undefined && { parent }),
    ...(endMs !== undefined && { endMs }),
    ...(error !== undefined && { error }),
  };
}

function logRow(line: NonNullable<RunView["lines"]>[number]): RunDetail["lines"][number] {
  return { timeMs: line.timeMs, level: line.level, text: logMessage(line) };
}
