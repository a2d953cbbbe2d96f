/**
 * Reads the files of a module's chart, and computes the digest of a release's inputs: of all that the release is made from
 * (docs/reference/status.md, "Labels and annotations"). The *reach* of a chart is what its templates may use: which globals (all of them
 * if it is `dynamic`), and whether `lookup`, `tpl` or `.Capabilities`. A `synthetic` chart is a `templates/` directory for which the operator
 * writes a Chart.yaml.
 */

import { gunzipSync } from "node:zlib";

import {
  canonicalJson,
  decodeText,
  digest,
  hashFiles,
  parseYaml,
  readRegularFile,
  WorkSlices,
} from "../../base/index.ts";
import type { Clock } from "../../base/index.ts";
import { isContainer, objectOf, ProblemError, REQUESTED_AT, valueAt } from "../../base/model/index.ts";
import type { Json, JsonObject, Module } from "../../base/model/index.ts";
import {
  Fingerprint,
  listChartFiles,
  listChartFilesInSlices,
  refuseLinksOutside,
  stat,
  type ChartFile,
} from "../../modules/index.ts";
import type { Capabilities } from "./capabilities.ts";
import { mentionsCrds, mentionsHooks, scanCalls, TemplateScanner, type Reach } from "./template-scan.ts";

/** Facts about a module's chart, found without running helm. */
export interface Chart {
  /** SHA-256 of its files. */
  readonly digest: string;
  readonly reach: Reach;
  /** helm refuses the chart as it is (no Chart.yaml, or one without a usable name). */
  readonly needsChartYaml: boolean;
  /** Files in `crds/` of its sub-charts, and packed sub-charts that contain such files. */
  readonly subChartCrds: readonly string[];
}

/** The files of a module's chart cannot be used; a user has to change them. */
export class UnusableChartError extends ProblemError {}

type ChartFilesOf = Pick<Module, "chartDir" | "chart"> & Partial<Pick<Module, "dir" | "serviceAccountName">>;

/**
 * Finds the files of a module's chart. Throws ProblemError where its directory is missing, for a file that helm refuses, and, for a
 * module with a service account of its own, for a link out of its directory: the operator could read files that the account must not.
 */
export function findChartFiles(module: ChartFilesOf): ChartFile[] {
  const { chartDir, chart } = module;
  requireChart(module);
  return checkLinks(module, listChartFiles(chartDir, chart === "synthetic"));
}

/** As `findChartFiles`, but lets other work go on meanwhile. */
export async function findChartFilesInSlices(module: ChartFilesOf, slices: WorkSlices): Promise<ChartFile[]> {
  const { chartDir, chart } = module;
  requireChart(module);
  return checkLinks(module, await listChartFilesInSlices(chartDir, chart === "synthetic", slices));
}

/** Reads the texts of the files of a chart that `which` selects. Throws as `findChartFiles`, and the file system's error. */
export function readChartTexts(module: ChartFilesOf, which: (rel: string) => boolean = () => true): string[] {
  const files = findChartFiles(module).filter(({ rel }) => which(rel));
  return files.map(({ rel, path }) => unpackedText(rel, readRegularFile(path)));
}

/** Throws ProblemError where the directory of the chart is missing. */
function requireChart({ chartDir }: ChartFilesOf): void {
  if (stat(chartDir) === undefined) {
    const message =
      "the chart in force is missing: the files of its module have changed since they were read";
    const remedy = `converge with kubectl annotate --overwrite addonoperator NAME ${REQUESTED_AT}=$(date +%s)`;
    throw new ProblemError({ file: chartDir, message, remedy });
  }
}

/** Returns the files of a chart. For a module with a service account of its own, throws ProblemError for a link out of its directory. */
function checkLinks(module: ChartFilesOf, files: ChartFile[]): ChartFile[] {
  const { chartDir, dir = chartDir, serviceAccountName } = module;
  // An unpacked archive, which lies elsewhere, contains no links.
  const isArchive = !chartDir.startsWith(dir);
  if (serviceAccountName !== undefined && !isArchive) refuseLinksOutside(dir, files);
  return files;
}

interface CachedChart {
  readonly dir: string;
  readonly fingerprint: Fingerprint;
  /** Wall-clock time of the read in ms. */
  readonly readAt: number;
  readonly chart: Chart;
}

/** Reads charts, opening only files of charts that changed. */
export class ChartReader {
  /** By module, not by directory, because a changed archive is unpacked into another directory. */
  readonly #cache = new Map<string, CachedChart>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The facts about a chart, from the cache if no file changed. Throws UnusableChartError, or the file system's error. */
  async read(module: Pick<Module, "name"> & ChartFilesOf): Promise<Chart> {
    const slices = new WorkSlices();
    const files = await findUsableChartFiles(module, slices);
    const fingerprint = new Fingerprint(files.map((file) => [file.rel, file]));
    const cached = this.#cache.get(module.name);
    const isSameDir = cached?.dir === module.chartDir;
    if (isSameDir && cached.fingerprint.isUnchanged(cached.readAt, fingerprint)) return cached.chart;
    const readAt = this.#clock.now();
    const chart = await readChart(files, module.chart, slices);
    this.#cache.set(module.name, { dir: module.chartDir, fingerprint, readAt, chart });
    return chart;
  }
}

/** As `findChartFiles`, but throws UnusableChartError for a ProblemError: callers do not retry it, because only a user can help. */
async function findUsableChartFiles(module: ChartFilesOf, slices: WorkSlices): Promise<ChartFile[]> {
  try {
    return await findChartFilesInSlices(module, slices);
  } catch (error) {
    throw error instanceof ProblemError ? new UnusableChartError(...error.problems) : error;
  }
}

/** The relative paths and the bytes of files of a chart. */
type Contents = (readonly [string, Buffer])[];

/** Reads files of a chart, and lets other work go on meanwhile. Throws the file system's error. */
export async function readContents(files: readonly ChartFile[], slices: WorkSlices): Promise<Contents> {
  const contents: Contents = [];
  for (const { rel, path, size } of files) {
    contents.push([rel, readRegularFile(path)]);
    await slices.count(size);
  }
  return contents;
}

/** Reads the facts about a chart from the contents of its files: digest, reach, and whether the operator has to write its Chart.yaml. */
async function readChart(
  files: readonly ChartFile[],
  kind: Module["chart"],
  slices: WorkSlices,
): Promise<Chart> {
  const contents = await readContents(files, slices);
  const scanner = new TemplateScanner();
  for (const [rel, bytes] of contents) {
    if (!isTemplate(rel)) continue;
    scanner.add(unpackedText(rel, bytes));
    await slices.count(bytes.length);
  }
  const chartYaml = contents.find(([rel]) => rel === "Chart.yaml")?.[1] ?? Buffer.alloc(0);
  return {
    digest: hashFiles(contents),
    reach: addReachOfFiles(scanner.finish(), contents),
    needsChartYaml: kind === "synthetic" || !hasUsableName(chartYaml),
    subChartCrds: contents.filter(([rel, bytes]) => hasSubChartCrds(rel, bytes)).map(([rel]) => rel),
  };
}

const CHART_METADATA_FILE = /^(?:charts\/[^/]+\/)*(?:Chart|requirements)\.yaml$/;
const SCHEMA_FILE = /^(?:charts\/[^/]+\/)*values\.schema\.json$/;

const VALUES_FILE = /^(?:charts\/[^/]+\/)*values\.yaml$/;

/** Whether a file of a chart has the default values of the chart, or of a sub-chart that is not packed. */
export function isValuesFile(rel: string): boolean {
  return VALUES_FILE.test(rel);
}

/**
 * Adds to the reach of templates what other files of the chart reach: conditions of sub-charts and values.schema.json read globals,
 * `tpl` can render any file, and templates may print hooks and CRDs from values.
 */
function addReachOfFiles(reach: Reach, contents: Contents): Reach {
  const texts = (which: (rel: string) => boolean): string[] =>
    contents.filter(([rel]) => which(rel)).map(([rel, bytes]) => unpackedText(rel, bytes));
  const isPacked = (rel: string): boolean => PACKED_SUB_CHART.test(rel);
  const metadata = texts((rel) => CHART_METADATA_FILE.test(rel)).map(findGlobalPathsInMetadata);
  const packedPaths = texts(isPacked).flatMap((text) => Array.from(text.matchAll(GLOBAL_PATH), getPath));
  const schemas = texts((rel) => SCHEMA_FILE.test(rel) || isPacked(rel));
  const schemaReadsGlobals = schemas.some((text) => text.includes(`"global"`));
  const renderedByTpl = reach.tpl ? texts(() => true) : [];
  const calls = renderedByTpl.map(scanCalls);
  // The scan has read the templates.
  const others = reach.tpl ? texts((rel) => !isTemplate(rel)) : [];
  const capabilities = others.some((text) => text.includes("Capabilities"));
  const values = texts(isValuesFile);
  return {
    ...reach,
    globals: new Set([...reach.globals, ...metadata.flatMap((paths) => paths ?? []), ...packedPaths]),
    dynamic: reach.dynamic || schemaReadsGlobals || metadata.includes(undefined),
    capabilities: reach.capabilities || capabilities,
    apis: capabilities ? undefined : reach.apis,
    lookup: reach.lookup || calls.some(({ lookup }) => lookup),
    random: reach.random || calls.some(({ random }) => random),
    hooks: reach.hooks || [...values, ...renderedByTpl].some(mentionsHooks),
    crds: reach.crds || [...values, ...renderedByTpl].some(mentionsCrds),
  };
}

/** A path below `global`, such as `db.enabled` of `global.db.enabled`. */
const GLOBAL_PATH = /\bglobal((?:\.[\w-]+)+)/g;

/** The path without `global.` in a match of `GLOBAL_PATH`. */
const getPath = ([, path = ""]: RegExpExecArray): string => path.slice(1);

/**
 * Finds the paths below `global` that a Chart.yaml or requirements.yaml names: in conditions of sub-charts, such as
 * `condition: global.db.enabled,db.on`, and in `import-values`. Undefined if it cannot be read, so that any path may be in it.
 */
function findGlobalPathsInMetadata(text: string): string[] | undefined {
  try {
    return listStrings(parseYaml(text, "").value).flatMap((each) =>
      each
        .split(",")
        .map((path) => path.trim())
        .filter((path) => path.startsWith("global."))
        .map((path) => path.slice("global.".length)),
    );
  } catch {
    return undefined;
  }
}

/** All strings in a value. */
function listStrings(value: Json | undefined): string[] {
  if (typeof value === "string") return [value];
  return isContainer(value) ? Object.values(value).flatMap((each) => listStrings(each as Json)) : [];
}

/** Whether helm accepts the name in Chart.yaml. True for a broken file, because helm reports that. */
function hasUsableName(chartYaml: Buffer): boolean {
  try {
    const { name } = objectOf(parseYaml(decodeText(chartYaml), "Chart.yaml").value);
    return typeof name === "string" && name !== "" && name !== "." && name !== ".." && !/[/\\]/.test(name);
  } catch {
    return true;
  }
}

interface ReleaseInputs {
  readonly module: Pick<Module, "name" | "valuesKey">;
  readonly namespace: string;
  readonly chart: Chart;
  /** As helm gets them: `global` and the module's section. */
  readonly values: JsonObject;
  /** The version of helm. */
  readonly helm: string;
  /** As `Capabilities.digest`; called only where templates use the server's data. */
  readonly capabilities: Capabilities["digest"];
}

/**
 * Computes the digest of all that a release is made from, the version of helm included. While it stays the same, a run need not call
 * helm. Globals and capabilities of the server count only where the chart's templates can reach them.
 */
export async function computeInputsDigest(inputs: ReleaseInputs): Promise<string> {
  const { module, namespace, chart, values, helm } = inputs;
  const { global, ...moduleValues } = values;
  return digest(
    chart.digest,
    canonicalJson(moduleValues),
    canonicalJson(selectReachedGlobals(chart, global)),
    module.name,
    namespace,
    helm,
    chart.reach.capabilities ? await inputs.capabilities(chart.reach.apis) : "",
  );
}

/** Selects the part of `global` that the chart's templates can reach: by literal path, or all of it where the scan cannot determine it. */
function selectReachedGlobals(chart: Pick<Chart, "reach">, global: Json | undefined): Json {
  if (chart.reach.dynamic) return global ?? null;
  const reached: JsonObject = {};
  for (const path of [...chart.reach.globals].sort())
    reached[path] = valueAt(global, path.split(".")) ?? null;
  return reached;
}

/**
 * Adds to the reach of a chart what the values add: values may contain hooks or CRDs and, if the chart renders values with `tpl`,
 * templates that read `.Capabilities` or use `lookup`.
 */
export function addReachOfValues(chart: Chart, valuesText: string): Chart {
  const { reach } = chart;
  const hooks = reach.hooks || mentionsHooks(valuesText);
  const crds = reach.crds || mentionsCrds(valuesText);
  const rendersValues = reach.tpl && valuesText.includes("{{");
  const readsCapabilities = rendersValues && valuesText.includes("Capabilities");
  const capabilities = reach.capabilities || readsCapabilities;
  const apis = readsCapabilities ? undefined : reach.apis;
  const calls = rendersValues ? scanCalls(valuesText) : { lookup: false, random: false };
  const lookup = reach.lookup || calls.lookup;
  const random = reach.random || calls.random;
  return { ...chart, reach: { ...reach, hooks, crds, capabilities, apis, lookup, random } };
}

/** Largest content of a packed sub-chart that is unpacked, in bytes: protects the memory of the operator. */
const MAX_UNPACKED_BYTES = 64 * 1024 * 1024;

/** The text of a file that may contain templates. Of a packed sub-chart, all files in one text, because only the words in it matter. */
export function unpackedText(rel: string, bytes: Buffer): string {
  if (!/\.(tgz|tar\.gz)$/.test(rel)) return bytes.toString("utf8");
  try {
    return gunzipSync(bytes, { maxOutputLength: MAX_UNPACKED_BYTES }).toString("utf8");
  } catch {
    // helm reports the unreadable file. Until then it counts as one that uses everything.
    return "{{ tpl . }}{{ .Capabilities }}";
  }
}

const TEMPLATE_FILE = /^(?:charts\/[^/]+\/)*templates\//;
const PACKED_SUB_CHART = /^(?:charts\/[^/]+\/)*charts\/[^/]+\.(tgz|tar\.gz)$/;

/** Whether helm renders a file of a chart: a template of the chart or of a sub-chart, or a packed sub-chart. */
export function isTemplate(rel: string): boolean {
  return TEMPLATE_FILE.test(rel) || PACKED_SUB_CHART.test(rel);
}

const SUB_CHART_CRD = /^(?:charts\/[^/]+\/)+crds\/.*\.(?:ya?ml|json)$/;

/** Whether a file of a chart is one in `crds/` of a sub-chart, or a packed sub-chart with such files. */
function hasSubChartCrds(rel: string, bytes: Buffer): boolean {
  return (
    SUB_CHART_CRD.test(rel) || (PACKED_SUB_CHART.test(rel) && unpackedText(rel, bytes).includes("/crds/"))
  );
}

/** The map in a YAML file; empty where it is missing or broken, because helm reports that when it renders the chart. */
export function readYamlMap(file: string): JsonObject {
  try {
    return objectOf(parseYaml(readRegularFile(file).toString("utf8"), file).value);
  } catch {
    return {};
  }
}
