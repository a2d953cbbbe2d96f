/**
 * Reads ModuleSources: what the CRD cannot check is checked here, with one clear problem for each error. The modules of a
 * source are artifacts of a registry (`spec.registry`), or public charts of a registry or chart repository (`spec.charts`).
 */

import { CrontabError, parseCrontab } from "../hooks/cron/index.ts";
import { isRange, isVersion, parseDuration } from "../base/index.ts";
import { isJsonObject, objectOf, ProblemError, type Problem } from "../base/model/index.ts";
import { ADDON_FILE, findAddonProblem } from "../modules/index.ts";
import {
  describeCaProblem,
  isChartRepository,
  isDigest,
  isTag,
  normalizeChartLocation,
  parseReference,
} from "./registry/index.ts";
import type { IModuleSource } from "../report/index.ts";
import { describeNameProblem } from "./disk/module-links.ts";
import type { ChartContent, ModuleRequest, SourceSpec, UpdatePolicy } from "./types.ts";

type Spec = NonNullable<IModuleSource["spec"]>;
type SourceLocation = Pick<SourceSpec, "registry" | "charts" | "unsigned">;

/** Reports what is wrong with a field of a spec. */
type ReportProblem = (key: string, message: string, remedy: string) => void;

const DEFAULT_INTERVAL_MS = 300_000;
const MIN_INTERVAL_MS = 30_000;

const isText = (value: unknown): boolean => typeof value === "string";
const isFlag = (value: unknown): boolean => typeof value === "boolean";

/** The types that the CRD requires. A user may have changed the CRD, and a spec of another type must not look like one without modules. */
const FIELD_TYPES: Readonly<Record<string, readonly [isValid: (value: unknown) => boolean, type: string]>> = {
  ...Object.fromEntries(
    ["registry", "charts", "secret", "ca", "interval"].map((key) => [key, [isText, "text"]]),
  ),
  ...Object.fromEntries(["unsigned", "plainHttp", "suspend"].map((key) => [key, [isFlag, "boolean"]])),
  ...Object.fromEntries(["verify", "update", "modules"].map((key) => [key, [isJsonObject, "map"]])),
  mirrors: [Array.isArray, "list"],
};

/** Throws ProblemError if a field, or a module, has another type than the CRD requires. */
function requireTypes(file: string, spec: Readonly<Record<string, unknown>>): void {
  const problems: Problem[] = [];
  const remedy = "correct it, and apply the CRDs of this version";
  const require = (key: string, value: unknown, [isValid, type]: (typeof FIELD_TYPES)[string]): void => {
    if (value !== undefined && !isValid(value))
      problems.push({ file, key: `spec${key}`, message: `must be a ${type}`, remedy });
  };
  require("", spec, [isJsonObject, "map"]);
  for (const [key, type] of Object.entries(FIELD_TYPES)) require(`.${key}`, objectOf(spec)[key], type);
  for (const [name, request] of Object.entries(objectOf(objectOf(spec)["modules"])))
    require(`.modules.${name}`, request, [isJsonObject, "map"]);
  if (problems.length > 0) throw new ProblemError(...problems);
}

/** Parses and checks the spec of a ModuleSource. Throws ProblemError with all its problems. */
export function parseSourceSpec({ metadata, spec = {} }: IModuleSource): SourceSpec {
  const file = `ModuleSource ${metadata.name}`;
  requireTypes(file, spec as Readonly<Record<string, unknown>>);
  const problems: Problem[] = [];
  const report: ReportProblem = (key, message, remedy) => problems.push({ file, key, message, remedy });
  const location = parseLocation(spec, report);
  const mirrors = parseMirrors(spec, location, report);
  const intervalMs = parseInterval(spec.interval, report);
  const modules = new Map<string, ModuleRequest>(Object.entries(spec.modules ?? {}));
  for (const [name, request] of modules) {
    checkModuleRequest(name, request, report);
    checkModuleFields(location, [name, request], report);
  }
  const update = parseUpdatePolicy(spec.update, report);
  checkCa(spec.ca, report);
  if (problems.length > 0 || location === undefined) throw new ProblemError(...problems);
  const { plainHttp = false, secret, ca, suspend = false, verify } = spec;
  const keys = verify?.keys;
  return { ...location, mirrors, plainHttp, secret, ca, intervalMs, suspend, update, keys, modules };
}

/** Reports a CA that is no list of certificates. */
function checkCa(ca: string | undefined, report: ReportProblem): void {
  const problem = ca === undefined ? undefined : describeCaProblem(ca);
  if (problem !== undefined) report("spec.ca", problem, "write the registry's CA as PEM");
}

/** Parses the time between two checks, in ms. Reports a text that is no duration, and one that is too short. */
function parseInterval(text: string | undefined, report: ReportProblem): number {
  if (text === undefined) return DEFAULT_INTERVAL_MS;
  const ms = parseDuration(text) ?? 0;
  if (ms < MIN_INTERVAL_MS)
    report("spec.interval", `"${text}" is no duration of at least 30s`, "write one such as 5m");
  return ms;
}

const REQUEST_REMEDY = "name a version or a range, a digest, or a tag: 1.4.2, ~1.4, sha256:…, stable";

/** Reports an invalid name of a module, and a request that does not name one content. */
function checkModuleRequest(name: string, request: ModuleRequest, report: ReportProblem): void {
  const key = `spec.modules.${name}`;
  const refused = describeNameProblem(name);
  if (refused !== undefined) report(key, refused, "name a module by its directory");
  const problem = describeRequestProblem(request);
  if (problem !== undefined) report(key, problem, REQUEST_REMEDY);
}

/** Describes what is wrong with a request: it needs a tag, or a version, or a digest with an optional exact version. */
function describeRequestProblem({ version, tag, digest }: ModuleRequest): string | undefined {
  const hasVersion = version !== undefined || digest !== undefined;
  if (tag === undefined && !hasVersion) return "has neither version nor digest nor tag";
  if (tag !== undefined && hasVersion) return "has a tag, and also a version or a digest";
  if (tag !== undefined) return isTag(tag) ? undefined : `"${tag}" is no tag`;
  return describeVersionProblem(version, digest);
}

/** What is wrong with a version or a digest, and with a version beside a digest. */
function describeVersionProblem(version: string | undefined, digest: string | undefined): string | undefined {
  if (digest !== undefined && !isDigest(digest)) return "has a digest that is no sha256 digest";
  if (version === undefined || isVersion(version)) return undefined;
  if (digest !== undefined) return `"${version}" is no exact version, which a digest needs`;
  return isRange(version) ? undefined : `"${version}" is neither a version nor a range`;
}

/** Parses the registry or chart repository of a spec. Returns undefined after it has reported a problem. */
function parseLocation(spec: Spec, report: ReportProblem): SourceLocation | undefined {
  const { registry: text, charts, unsigned = false } = spec;
  if ((text === undefined) === (charts === undefined)) {
    report("spec", "needs either registry or charts", "name one of them");
    return undefined;
  }
  if (text !== undefined) {
    if (unsigned) report("spec.unsigned", "requires charts", "remove it, and sign the modules");
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
    report(
      "spec.charts",
      `"${text}" is not a location of charts`,
      "write https://HOST/PATH or oci://HOST/PATH",
    );
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

/** Parses the mirrors of a registry. Unsigned content has none, because a mirror could change it. */
function parseMirrors(
  { mirrors = [] }: Spec,
  location: SourceLocation | undefined,
  report: ReportProblem,
): SourceSpec["mirrors"] {
  const isAllowed =
    location?.charts === undefined || (!location.unsigned && !isChartRepository(location.charts));
  if (mirrors.length > 0 && !isAllowed)
    report("spec.mirrors", "require a registry with signed content", "remove them");
  return mirrors.flatMap((text, index) => parseRegistry(text, `spec.mirrors[${index}]`, report) ?? []);
}

/** Parses a registry reference, which must have neither tag nor digest. Returns undefined after it has reported a problem. */
function parseRegistry(text: string, key: string, report: ReportProblem): SourceSpec["registry"] | undefined {
  const form = "write oci://HOST/PATH, without a tag or a digest";
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

/** Reports fields of a module that only charts may have, or that charts must not have; nothing if the location is invalid. */
function checkModuleFields(
  location: SourceLocation | undefined,
  [name, request]: readonly [string, ModuleRequest],
  report: ReportProblem,
): void {
  const key = `spec.modules.${name}`;
  const hasChartFields = request.chart !== undefined || request.module !== undefined;
  if (location?.charts !== undefined)
    checkChartFields(location.charts, request, (field, ...problem) => report(key + field, ...problem));
  else if (location !== undefined && hasChartFields)
    report(key, "has chart or module, which require charts", "write addon.yaml into the module");
}

/** Reports invalid fields of a module that is a chart. `report` gets keys relative to the module, such as `.chart`. */
function checkChartFields(
  charts: string,
  { chart, tag, module: addonKeys = {} }: ModuleRequest,
  report: ReportProblem,
): void {
  if (chart !== undefined && !CHART_NAME.test(chart))
    report(".chart", `"${chart}" is no name of a chart`, "write it as Chart.yaml has it");
  if (tag !== undefined && isChartRepository(charts))
    report(".tag", "is for registries: chart repositories have no tags", "name a version or a range");
  if ("chart" in addonKeys) report(".module.chart", "is set by the operator", "remove it");
  const problem = findAddonProblem(addonKeys, ADDON_FILE);
  if (problem !== undefined)
    report(`.module.${problem.key ?? ""}`, problem.message, problem.remedy ?? "correct it");
}

const CHART_NAME = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,249}$/;

/** The chart that a source names for a module, with the keys of its `addon.yaml` (`terms`); undefined for a source of modules. */
export function toChartContent(
  { charts, unsigned }: SourceLocation,
  name: string,
  { chart = name, module: terms }: ModuleRequest,
): ChartContent | undefined {
  if (charts === undefined) return undefined;
  return { from: charts, name: chart, ...(unsigned && { unsigned }), ...(terms && { terms }) };
}

/** Parses `spec.update`. Returns undefined without one. Reports its problems, and continues with defaults. */
function parseUpdatePolicy(update: Spec["update"], report: ReportProblem): UpdatePolicy | undefined {
  if (update === undefined) return undefined;
  const { approval = "auto", windows = [], after, parallel = 1 } = update;
  const parsePolicyDuration = (key: string, text: string): number | undefined => {
    const ms = parseDuration(text);
    if (ms !== undefined && ms >= 0) return ms;
    report(key, `"${text}" is no duration`, "write one such as 24h");
    return undefined;
  };
  return {
    approval,
    parallel,
    minAgeMs: after === undefined ? 0 : (parsePolicyDuration("spec.update.after", after) ?? 0),
    windows: windows.map(({ cron, for: duration }, index) => {
      const key = `spec.update.windows[${index}]`;
      checkWindowCron(cron, (message) =>
        report(`${key}.cron`, message, 'write a crontab line such as "0 2 * * 1-5"'),
      );
      const forMs = parsePolicyDuration(`${key}.for`, duration);
      if (forMs === 0) report(`${key}.for`, "is never open", "write a duration such as 2h");
      return { cron, forMs: forMs ?? 0 };
    }),
  };
}

/** Reports a crontab line that cannot open a window: invalid, or `@every`, which names no times of the day. */
function checkWindowCron(line: string, report: (message: string) => void): void {
  try {
    if (parseCrontab(line).periodMs !== undefined) report("a window opens at times of the day, not @every");
  } catch (error) {
    if (!(error instanceof CrontabError)) throw error;
    report(error.message);
  }
}
