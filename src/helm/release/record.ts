/** Reads the records that helm keeps in Secrets, and estimates what a new one takes. */

import { promisify } from "node:util";
import { gunzip, gzip, gzipSync } from "node:zlib";

import { DepthError, cutDeep, isTooDeep, oneLine, readPlain } from "../../lib/index.ts";
import { isJsonObject, objectOf, objectsIn, textOf } from "../../model/index.ts";
import type { JsonObject, Module } from "../../model/index.ts";
import { listChartFiles } from "../chart/chart.ts";
import { adoptionChecksum, documentsOf, lastingObjects, manifestChecksum } from "../manifest/manifest.ts";
import type { Rendered } from "../rendering.ts";
import { GO_CONFIG_KEY } from "./revisions.ts";

/** Most bytes of a record when it is unpacked; helm's own are below 64 MB in all. */
const LARGEST = 64 * 1024 * 1024;
const inflate = promisify(gunzip);
const pack = promisify(gzip);

/** A hook of a chart, and how its last run ended. */
export interface HookRecord {
  readonly manifest: string;
  /** `Kind/name`. */
  readonly object: string;
  /** `pre-install` and so on. */
  readonly events: readonly string[];
  /** `Running`, `Succeeded`, `Failed`; undefined when it never ran for this revision. */
  readonly phase: string | undefined;
  /** In ms since the epoch. */
  readonly startedAt: number | undefined;
}

/** What helm stores in a release Secret, as far as it is used here. */
export interface ReleaseRecord {
  readonly manifest: string;
  readonly hooks: readonly HookRecord[];
  readonly config: JsonObject;
  readonly chartVersion: string | undefined;
  /** When this revision was deployed, in ms since the epoch. */
  readonly lastDeployed: number | undefined;
  readonly applyMethod: "csa" | "ssa";
  /** What helm says became of it: its error where it failed. */
  readonly description: string | undefined;
}

/** Parses `data.release` of a release Secret. Throws SyntaxError for anything else. */
export async function decodeRelease(data: string): Promise<ReleaseRecord> {
  const json = cutDeep(await decodeJson(data));
  const chart = objectOf(objectOf(json["chart"])["metadata"]);
  return {
    manifest: textOf(json["manifest"]) ?? "",
    hooks: objectsIn(json["hooks"]).map(hookOf),
    config: objectOf(json["config"]),
    chartVersion: textOf(chart["version"]),
    lastDeployed: timeOf(objectOf(json["info"])["last_deployed"]),
    applyMethod: json["apply_method"] === "ssa" ? "ssa" : "csa",
    description: textOf(objectOf(json["info"])["description"]),
  };
}

function hookOf(json: JsonObject): HookRecord {
  const run = objectOf(json["last_run"]);
  const events = Array.isArray(json["events"]) ? json["events"] : [];
  return {
    manifest: textOf(json["manifest"]) ?? "",
    object: `${textOf(json["kind"]) ?? ""}/${textOf(json["name"]) ?? ""}`,
    events: events.filter((event) => typeof event === "string"),
    phase: textOf(run["phase"]),
    startedAt: timeOf(run["started_at"]),
  };
}

/** The same record with status `failed`, as helm itself would write it. */
export async function encodeFailed(data: string, description: string): Promise<string> {
  const json = await decodeJson(data);
  return encode({ ...json, info: { ...objectOf(json["info"]), status: "failed", description } });
}

/** The same record with another description, which `helm history` shows. */
export async function encodeDescription(data: string, description: string): Promise<string> {
  const json = await decodeJson(data);
  return encode({ ...json, info: { ...objectOf(json["info"]), description } });
}

/** The same record with another manifest. */
export async function encodeManifest(data: string, manifest: string): Promise<string> {
  return encode({ ...(await decodeJson(data)), manifest });
}

async function encode(json: JsonObject): Promise<string> {
  if (isTooDeep(json)) throw new DepthError("the release record");
  const packed = await pack(Buffer.from(JSON.stringify(json)));
  return Buffer.from(packed.toString("base64")).toString("base64");
}

/**
 * The API encodes bytes as base64, and helm encodes its gzip as base64 once more; very old records are not
 * compressed.
 */
async function decodeJson(data: string): Promise<JsonObject> {
  const bytes = Buffer.from(Buffer.from(data, "base64").toString("latin1"), "base64");
  const plain = bytes[0] === 0x1f && bytes[1] === 0x8b ? await unpack(bytes) : bytes;
  const value = parse(plain.toString("utf8"));
  if (!isJsonObject(value)) throw new SyntaxError("a release record that is no object");
  return value;
}

/** V8's own message quotes the text, which may hold secrets. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new SyntaxError("a release record that is no JSON");
  }
}

async function unpack(bytes: Buffer): Promise<Buffer> {
  try {
    return await inflate(bytes, { maxOutputLength: LARGEST });
  } catch (error) {
    throw new SyntaxError(`a release record that cannot be unpacked: ${oneLine(error)}`);
  }
}

/** Go's zero time means that there is none. */
function timeOf(value: unknown): number | undefined {
  const time = Date.parse(textOf(value) ?? "");
  return time > 0 ? time : undefined;
}

/** What is kept in memory of a release record; `objects` are those that last. */
export interface ReleaseSummary
  extends Rendered, Pick<ReleaseRecord, "chartVersion" | "lastDeployed" | "applyMethod"> {
  /** An older Go operator left its checksum among the release's values. */
  readonly goMark: boolean;
}

/** Takes from a record what later decisions need. */
export function summarize(record: ReleaseRecord): ReleaseSummary {
  const documents = documentsOf(record.manifest);
  const all = [...documents, ...record.hooks.flatMap((hook) => documentsOf(hook.manifest))];
  return {
    objects: lastingObjects(documents),
    checksum: manifestChecksum(all),
    adoptionChecksum: adoptionChecksum(all),
    chartVersion: record.chartVersion,
    lastDeployed: record.lastDeployed,
    applyMethod: record.applyMethod,
    goMark: record.config[GO_CONFIG_KEY] !== undefined,
  };
}

/** What a Secret, so a record, may hold: the API server's limit. */
export const LARGEST_RECORD = 1024 * 1024;

/**
 * Bytes of the record that helm would keep: manifest and files of the chart, without those of its sub-charts, packed
 * and in base64. Throws the file system's error.
 */
export function recordSize(module: Pick<Module, "chartDir" | "chart">, manifest: string): number {
  const files = listChartFiles(module.chartDir, module.chart === "synthetic")
    .filter(({ rel }) => !rel.startsWith("charts/"))
    .map(({ rel, path }) => ({ name: rel, data: readPlain(path).toString("base64") }));
  const packed = gzipSync(JSON.stringify({ chart: { files }, manifest }), { level: 9 });
  return Math.ceil(packed.length / 3) * 4;
}
