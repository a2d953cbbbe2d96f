/** Where a ModuleSource gets its modules, and which fields of a module are allowed there. */

import { sameJson } from "../../lib/index.ts";
import { ProblemError, type Json } from "../../model/index.ts";
import { ADDON_FILE, findAddonProblem } from "../../modules/index.ts";
import { normalizeChartLocation, isChartRepository, parseReference } from "../../registry/index.ts";
import type { IModuleSource } from "../../status/index.ts";
import type { ReportProblem } from "../update-policy.ts";
import type { ChartContent, SourceSpec, ModuleRequest } from "../types.ts";

type Spec = NonNullable<IModuleSource["spec"]>;
type SourceLocation = Pick<SourceSpec, "registry" | "charts" | "unsigned">;

/** Parses the registry or chart repository of a spec. Returns undefined after it has reported a problem. */
export function parseLocation(spec: Spec, report: ReportProblem): SourceLocation | undefined {
  const { registry: text, charts, unsigned = false } = spec;
  if ((text === undefined) === (charts === undefined)) {
    report("spec", "needs either registry or charts", "name one of them");
    return undefined;
  }
  if (text !== undefined) {
    if (unsigned) report("spec.unsigned", "is for charts alone", "remove it, and sign the modules");
    const registry = parseRegistry(text, "spec.registry", report);
    return registry && { registry, charts: undefined, unsigned: false };
  }
  return parseChartLocation(spec, report);
}

/** Parses `spec.charts`: a registry, or a chart repository, whose charts are never signed. */
function parseChartLocation(spec: Spec, report: ReportProblem): SourceLocation | undefined {
  const { charts: text = "", unsigned = false, plainHttp = false } = spec;
  const charts = normalizeChartLocation(text);
  if (charts === undefined) {
    report("spec.charts", `"${text}" is no place of charts`, "write https://HOST/PATH or oci://HOST/PATH");
    return undefined;
  }
  if (!isChartRepository(charts)) {
    const registry = parseRegistry(charts, "spec.charts", report);
    return registry && { registry, charts, unsigned };
  }
  if (!unsigned)
    report("spec.unsigned", "is missing: chart repositories have no signatures", "set it to true");
  if (charts.startsWith("http:") && !plainHttp)
    report("spec.charts", "is called without TLS", "write https://, or set plainHttp: true");
  const { host, pathname } = new URL(charts);
  return { registry: { host, name: pathname.slice(1) }, charts, unsigned };
}

/**
 * Parses the mirrors of a registry. Content without a signature may come from its own location only, because a mirror
 * could change it.
 */
export function parseMirrors(
  { mirrors = [] }: Spec,
  place: SourceLocation | undefined,
  report: ReportProblem,
): SourceSpec["mirrors"] {
  const isAllowed = place?.charts === undefined || (!place.unsigned && !isChartRepository(place.charts));
  if (mirrors.length > 0 && !isAllowed)
    report("spec.mirrors", "are for registries whose content is signed", "remove them");
  return mirrors.flatMap((text, index) => parseRegistry(text, `spec.mirrors[${index}]`, report) ?? []);
}

/** Parses a registry reference, which must have neither tag nor digest. Returns undefined after it has reported a problem. */
function parseRegistry(text: string, key: string, report: ReportProblem): SourceSpec["registry"] | undefined {
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

/**
 * Reports fields of a module that only charts may have, or that charts must not have. Reports nothing if the location
 * itself is invalid.
 */
export function checkModuleFields(
  place: SourceLocation | undefined,
  [name, request]: readonly [string, ModuleRequest],
  report: ReportProblem,
): void {
  const key = `spec.modules.${name}`;
  const isChart = request.chart !== undefined || request.module !== undefined;
  if (place?.charts !== undefined)
    checkChartFields(place.charts, request, (at, ...rest) => report(key + at, ...rest));
  else if (place !== undefined && isChart)
    report(key, "has chart or module, which are for charts alone", "write addon.yaml into the module");
}

/** Reports invalid fields of a module that is a chart. Keys are reported relative to the module. */
function checkChartFields(
  charts: string,
  { chart, tag, module: terms = {} }: ModuleRequest,
  report: ReportProblem,
): void {
  if (chart !== undefined && !CHART_NAME.test(chart))
    report(".chart", `"${chart}" is no name of a chart`, "write it as Chart.yaml has it");
  if (tag !== undefined && isChartRepository(charts))
    report(".tag", "is for registries: chart repositories have no tags", "name a version or a range");
  if ("chart" in terms) report(".module.chart", "is set by the operator", "remove it");
  const problem = findAddonProblem(terms, ADDON_FILE);
  if (problem !== undefined)
    report(`.module.${problem.key ?? ""}`, problem.message, problem.remedy ?? "correct it");
}

const CHART_NAME = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,249}$/;

/** The chart that a source names for a module; undefined for a source of modules. */
export function toChartContent(
  { charts, unsigned }: SourceLocation,
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

/**
 * Whether both are the same chart of the same location, or both are modules (undefined): only then their versions can be
 * compared.
 */
export function areVersionsComparable(
  left: ChartContent | undefined,
  right: ChartContent | undefined,
): boolean {
  return left?.from === right?.from && left?.name === right?.name;
}

/** Whether both are equal in chart and settings, so that the same archive makes the same module directory. */
export function isEqualChartContent(
  left: ChartContent | undefined,
  right: ChartContent | undefined,
): boolean {
  return sameJson(left as unknown as Json, right as unknown as Json);
}
