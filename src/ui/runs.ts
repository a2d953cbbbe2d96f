/** The last runs of tasks as the page draws them; secrets are still in the texts. */

import type { RunRing, RunView, Span } from "../trace/index.ts";
import type { LogRow, RunRow, SpanRow } from "./wire.ts";

/** Of all, the newest: nobody looks at more. */
const MOST_RUNS = 100;

/** The last runs, of one module or of all, the newest first. */
export function runRows(runs: Pick<RunRing, "views">, module: string | undefined): RunRow[] {
  const { runs: found } = runs.views({ module, lines: true });
  return found.slice(-MOST_RUNS).reverse().map(runRow);
}

function runRow({ task, from, spans, lines = [], dropped }: RunView): RunRow {
  const { module } = task.attributes;
  return {
    ...spanRow(task),
    ...(typeof module === "string" && { module }),
    from: from.name,
    spans: spans.map(spanRow),
    lines: lines.map(logRow),
    dropped,
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

function logRow({ timeMs, level, message, fields }: NonNullable<RunView["lines"]>[number]): LogRow {
  const more = Object.entries(fields).map(([name, value]) => `${name}=${String(value)}`);
  return { timeMs, level, text: [message, ...more].join(" ") };
}
