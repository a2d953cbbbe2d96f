/** Where a ModuleSource gets its modules, and which fields of a module are allowed there. */

import { sameJson } from "../../lib/index.ts";
import { ProblemError, type Json } from "../../model/index.ts";
import { ADDON_FILE, addonProblem } from "../../modules/index.ts";
import { chartsPlace, isRepository, parseReference } from "../../registry/index.ts";
import type { IModuleSource } from "../../status/index.ts";
import type { Report } from "../update-policy.ts";
import type { ChartContent, SourceSpec, ModuleRequest } from "../types.ts";

type Spec = NonNullable<IModuleSource["spec"]>;
type Place = Pick<SourceSpec, "registry" | "charts" | "unsigned">;

/** The place that a spec names; undefined after it has reported what is wrong. */
export function readPlace(spec: Spec, report: Report): Place | undefined {
  const { registry: text, charts, unsigned = false } = spec;
  if ((text === undefined) === (charts === undefined)) {
    report("spec", "needs either registry or charts", "name one of them");
    return undefined;
  }
  if (text !== undefined) {
    if (unsigned) report("spec.unsigned", "is for charts alone", "remove it, and sign the modules");
    const registry = registryOf(text, "spec.registry", report);
    return registry && { registry, charts: undefined, unsigned: false };
  }
  return placeOfCharts(spec, report);
}

function placeOfCharts(spec: Spec, report: Report): Place | undefined {
  const { charts: text = "", unsigned = false, plainHttp = false } = spec;
  const charts = chartsPlace(text);
  if (charts === undefined) {
    report("spec.charts", `"${text}" is no place of charts`, "write https://HOST/PATH or oci://HOST/PATH");
    return undefined;
  }
  if (!isRepository(charts)) {
    const registry = registryOf(charts, "spec.charts", report);
    return registry && { registry, charts, unsigned };
  }
  if (!unsigned)
    report("spec.unsigned", "is missing: chart repositories have no signatures", "set it to true");
  if (charts.startsWith("http:") && !plainHttp)
    report("spec.charts", "is called without TLS", "write https://, or set plainHttp: true");
  const { host, pathname } = new URL(charts);
  return { registry: { host, name: pathname.slice(1) }, charts, unsigned };
}

/** The mirrors of a registry. Content without a signature comes from its own place alone. */
export function readMirrors(
  { mirrors = [] }: Spec,
  place: Place | undefined,
  report: Report,
): SourceSpec["mirrors"] {
  const isAllowed = place?.charts === undefined || (!place.unsigned && !isRepository(place.charts));
  if (mirrors.length > 0 && !isAllowed)
    report("spec.mirrors", "are for registries whose content is signed", "remove them");
  return mirrors.flatMap((text, index) => registryOf(text, `spec.mirrors[${index}]`, report) ?? []);
}

function registryOf(text: string, key: string, report: Report): SourceSpec["registry"] | undefined {
  const form = "write oci://HOST/PATH, without tag and digest";
  try {
    const { host, name, tag, digest } = parseReference(text);
    if (tag === undefined && digest === undefined) return { host, name };
    report(key, "has a tag or a digest", form);
  } catch (error) {
    const [problem] = error instanceof ProblemError ? error.problems : [];
    report(key, problem?.message ?? "is no registry", form);
  }
  return undefined;
}

/** Reports what a module says that its place does not allow. An invalid place allows everything. */
export function checkTerms(
  place: Place | undefined,
  [name, request]: readonly [string, ModuleRequest],
  report: Report,
): void {
  const key = `spec.modules.${name}`;
  const isChart = request.chart !== undefined || request.module !== undefined;
  if (place?.charts !== undefined)
    checkChart(place.charts, request, (at, ...rest) => report(key + at, ...rest));
  else if (place !== undefined && isChart)
    report(key, "has chart or module, which are for charts alone", "write addon.yaml into the module");
}

function checkChart(charts: string, { chart, tag, module: terms = {} }: ModuleRequest, report: Report): void {
  if (chart !== undefined && !CHART.test(chart))
    report(".chart", `"${chart}" is no name of a chart`, "write it as Chart.yaml has it");
  if (tag !== undefined && isRepository(charts))
    report(".tag", "is for registries: chart repositories have no tags", "name a version or a range");
  if ("chart" in terms) report(".module.chart", "is set by the operator", "remove it");
  const problem = addonProblem(terms, ADDON_FILE);
  if (problem !== undefined)
    report(`.module.${problem.key ?? ""}`, problem.message, problem.remedy ?? "correct it");
}

const CHART = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,249}$/;

/** The chart that a source names for a module; undefined for a source of modules. */
export function chartOf(
  { charts, unsigned }: Place,
  name: string,
  { chart = name, module: terms }: ModuleRequest,
): ChartContent | undefined {
  return charts === undefined
    ? undefined
    : {
        from: charts,
        name: chart,
        ...(unsigned ? { unsigned } : {}),
        ...(terms === undefined ? {} : { terms }),
      };
}

/** Whether both are the same chart of the same place, or both are modules: only then their versions can be compared. */
export function isSamePlace(left: ChartContent | undefined, right: ChartContent | undefined): boolean {
  return left?.from === right?.from && left?.name === right?.name;
}

/** Whether the same archive makes the same module of both. */
export function isSameChart(left: ChartContent | undefined, right: ChartContent | undefined): boolean {
  return sameJson(left as unknown as Json, right as unknown as Json);
}
