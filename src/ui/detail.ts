/** What the page is told of one module, of its values and of the last runs; who asks takes the secrets out of it. */

import { explainModule, type Moment } from "../plan/index.ts";
import type { ModuleView } from "../state/index.ts";
import type { ModuleStatus, ShownValues } from "../status/index.ts";
import { logMessage, pointerOf } from "../lib/index.ts";
import { isJsonObject, textOf, type Json, type JsonObject } from "../model/index.ts";
import type { RunRing, RunView, Span } from "../trace/index.ts";
import type { LeafRow, ModuleDetail, ObjectRow, RunDetail, RunRow, SpanRow, ValuesDetail } from "./wire.ts";

/** Why the module is as it is; `status` is undefined where none is written, as by a follower. */
export function detailOf(module: ModuleView, at: Moment, status: ModuleStatus | undefined): ModuleDetail {
  return {
    conditions:
      status?.conditions.map(({ type, status: is, ...rest }) => ({ type, status: is, ...rest })) ?? [],
    why: explainModule(module, at),
    requires: (status?.requires ?? []).map(({ name, range, met, message }) => ({
      name,
      text: [range, message].filter(Boolean).join(": "),
      met,
    })),
    requiredBy: [...at.view.modules.values()].flatMap((each) =>
      Object.hasOwn(each.module.requires?.modules ?? {}, module.name) ? [each.name] : [],
    ),
    objects: objectsOf(status),
    facts: factsOf(module, status),
  };
}

/** What is not as it should be: gone, ill, changed by others. */
function objectsOf(status: ModuleStatus | undefined): ObjectRow[] {
  const absent = status?.absent ?? [];
  const ill = status?.health ?? [];
  const drifted = status?.drift ?? [];
  return [
    ...absent.map((object) => ({ object, what: "Gone", message: "" })),
    ...ill.map(({ object, status: what, reason = "", message = "" }) => ({
      object,
      what,
      message: [reason, message].filter(Boolean).join(": "),
    })),
    ...drifted.map(({ object, field, manager }) => ({
      object,
      what: "Drifted",
      message: manager === undefined ? field : `${field}, by ${manager}`,
    })),
  ];
}

function factsOf(module: ModuleView, status: ModuleStatus | undefined): [string, string][] {
  const { release, lastRun, nextRetryAt } = status ?? {};
  const facts: readonly (readonly [string, string | undefined])[] = [
    ["Directory", module.module.dir],
    ["Chart version", module.module.chartVersion],
    ["Release", release && `${release.name ?? ""}.v${release.revision ?? ""}, ${release.status ?? ""}`],
    ["Last applied", release?.lastDeployed],
    ["Last run", lastRun && inWords(lastRun)],
    ["Next try", nextRetryAt],
  ];
  return facts.flatMap(([name, text]): [string, string][] => (text === undefined ? [] : [[name, text]]));
}

function inWords({ result, step, hook, trigger, message }: NonNullable<ModuleStatus["lastRun"]>): string {
  const where = result === "Succeeded" ? undefined : `in ${[step, hook].filter(Boolean).join(" ")}`;
  return [[result ?? "Under way", where].filter(Boolean).join(" "), trigger, message]
    .filter(Boolean)
    .join(": ");
}

/** `origins` tells by JSON pointer which layer set a leaf of the section that is called `key`. */
export function leavesOf(
  { values, valuesTruncated }: ShownValues,
  key: string,
  origins: JsonObject,
): ValuesDetail {
  if (values === undefined) return { leaves: [], note: "Values are not shown: --status-values=none." };
  const section = isJsonObject(values) ? values[key] : undefined;
  const leaves = [...walk(section ?? {}, "")].map(([path, value]) => ({
    path: path === "" ? "/" : path,
    value: JSON.stringify(value),
    layer: textOf(origins[path]) ?? "",
  }));
  return valuesTruncated === true
    ? { leaves, note: "Not all is shown: the values are too large." }
    : { leaves };
}

function* walk(value: Json, path: string): Generator<readonly [LeafRow["path"], Json]> {
  const members = isJsonObject(value) ? Object.entries(value) : [];
  if (members.length === 0) yield [path, value];
  for (const [name, child] of members)
    if (child !== undefined) yield* walk(child, `${path}${pointerOf([name])}`);
}

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
