/** Details for the page: one module, its values, and the last runs. The caller redacts secrets. `status` is that of the AddonModule resource. */

import type { ModuleView } from "../../engine/state/index.ts";
import { omitUndefined, type ModuleStatus, type DisplayedValues } from "../../report/index.ts";
import { listLeaves, formatMessage } from "../../base/index.ts";
import {
  isJsonObject,
  asString,
  member,
  type Json,
  type JsonObject,
  type Span,
} from "../../base/model/index.ts";
import type { RunRing, RunView } from "../../base/trace/index.ts";
import type { ModuleDetail, ObjectRow, RunDetail, RunRow, SpanRow, ValuesDetail } from "./wire.ts";
import { describeContent, toDisplayedOrigin, explainProjected, type Projection } from "../../report/index.ts";

/** Builds the details of one module for the page. */
export function buildModuleDetail(module: ModuleView, projection: Projection): ModuleDetail {
  const status = projection.modules.get(module.name)?.status;
  return {
    conditions: status?.conditions ?? [],
    why: explainProjected(projection, module.name),
    requires: (status?.requires ?? []).map(({ name, range, met, message }) => ({
      name,
      text: [range, message].filter(Boolean).join(": "),
      met,
    })),
    requiredBy: [...projection.explanation.view.modules.values()].flatMap((each) =>
      Object.hasOwn(each.module.requires?.modules ?? {}, module.name) ? [each.name] : [],
    ),
    objects: listObjectProblems(status),
    facts: listFacts(module, status),
  };
}

/** Lists the objects of a release that are missing, unhealthy or drifted, one row for each problem. */
function listObjectProblems(status: ModuleStatus | undefined): ObjectRow[] {
  const absent = status?.absent ?? [];
  const unhealthy = status?.health ?? [];
  const drifted = status?.drift ?? [];
  return [
    ...absent.map((object) => ({ object, what: "Missing", message: "" })),
    ...unhealthy.map(({ object, status: what, reason = "", message = "" }) => ({
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

/** Lists facts about a module as pairs of name and text, without those that are unknown. */
function listFacts(module: ModuleView, status: ModuleStatus | undefined): [string, string][] {
  const { release, lastRun, nextRetryAt } = status ?? {};
  const facts: readonly (readonly [string, string | undefined])[] = [
    ["Directory", module.module.dir],
    ["Chart version", module.module.chartVersion],
    ["Source", describeSource(module)],
    ["Release", release && `${release.name ?? ""}.v${release.revision ?? ""}, ${release.status ?? ""}`],
    ["Last applied", release?.lastDeployed],
    ["Last run", lastRun && describeRun(lastRun)],
    ["Next attempt", nextRetryAt],
  ];
  return facts.flatMap(([name, text]): [string, string][] => (text === undefined ? [] : [[name, text]]));
}

/** The ModuleSource of a module, with the version and digest of the module that is used; undefined for a module that comes from no registry. */
function describeSource(module: ModuleView): string | undefined {
  const origin = toDisplayedOrigin(module);
  if (origin === undefined) return undefined;
  return [origin.name, describeContent(origin)].filter(Boolean).join(": ");
}

/** Result of a run with the failed step, its cause and its message. */
function describeRun({ result, step, hook, trigger, message }: NonNullable<ModuleStatus["lastRun"]>): string {
  const stepText = result === "Succeeded" ? undefined : `in ${[step, hook].filter(Boolean).join(" ")}`;
  const resultText = [result ?? "Running", stepText].filter(Boolean).join(" ");
  return [resultText, trigger, message].filter(Boolean).join(": ");
}

/** Whether a section of values is missing or has no keys. */
export function isEmptySection(section: Json | undefined): boolean {
  return section === undefined || (isJsonObject(section) && Object.keys(section).length === 0);
}

/** The leaves of the chart's values.yaml, for a module whose section is empty: the chart's own values are then in force. */
export function buildChartValues(displayed: DisplayedValues, key: string): ValuesDetail {
  const { leaves, note } = buildSectionValues(displayed, key, {});
  return {
    leaves: leaves.map((leaf) => ({ ...leaf, layer: "values.yaml of the chart" })),
    note: note ?? "The section is empty, so the chart's own values are in effect.",
  };
}

/** Lists the scalars (leaves) of the values below `key`, each with the layer that set it, such as the ConfigMap. `origins` maps JSON pointers to layers. */
export function buildSectionValues(
  { values, valuesTruncated }: DisplayedValues,
  key: string,
  origins: JsonObject,
): ValuesDetail {
  if (values === undefined) return { leaves: [], note: "Values are hidden by --status-values=none." };
  const section = isJsonObject(values) ? member(values, key) : undefined;
  const leaves = [...listLeaves(section ?? {})].map(([path, value]) => ({
    path: path === "" ? "/" : path,
    value: JSON.stringify(value),
    layer: asString(origins[path]) ?? "",
  }));
  return valuesTruncated === true
    ? { leaves, note: "Some values are not displayed because they are too large." }
    : { leaves };
}

const MAX_RUNS = 100;

/** The last runs of one module or of all, the newest first. */
export function listRunRows(runs: Pick<RunRing, "listRuns">, module: string | undefined): RunRow[] {
  return runs.listRuns({ module, newest: MAX_RUNS }).runs.reverse().map(toRunRow);
}

/** The log lines of a run; undefined after the operator has discarded the run. */
export function findRunDetail(runs: Pick<RunRing, "getRun">, id: string): RunDetail | undefined {
  const run = runs.getRun(id);
  return run && { lines: (run.lines ?? []).map(toLogRow), dropped: run.dropped };
}

/** The row of a run with the rows of its spans, its parts. */
function toRunRow({ task, from, spans }: RunView): RunRow {
  const { module } = task.attributes;
  const name = typeof module === "string" ? module : undefined;
  return omitUndefined({ ...toSpanRow(task), module: name, from: from.name, spans: spans.map(toSpanRow) });
}

/** Converts a span to the form that the page gets. */
function toSpanRow({ spanId: id, parentId: parent, kind, name, startMs, endMs, error }: Span): SpanRow {
  return omitUndefined({ id, kind, name, startMs, parent, endMs, error });
}

function toLogRow(line: NonNullable<RunView["lines"]>[number]): RunDetail["lines"][number] {
  return { timeMs: line.timeMs, level: line.level, text: formatMessage(line) };
}
