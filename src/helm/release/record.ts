/**
 * Decodes, encodes, summarizes and caches the record of a revision, which helm stores in a Secret: as JSON in gzip, encoded in base64 by
 * helm, and as `data` of a Secret once more.
 */

import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";

import { get, replace, SECRETS, type KubeClient, type Secret } from "../../kube/index.ts";
import { cutDeepParts, DepthError, isTooDeep, oneLine } from "../../base/index.ts";
import {
  isJsonObject,
  objectOf,
  objectsIn,
  asString,
  readJson,
  type Json,
  type JsonObject,
} from "../../base/model/index.ts";
import {
  adoptionChecksum,
  listHookObjects,
  listLastingObjects,
  listNamedObjects,
  manifestChecksum,
} from "../manifest/manifest.ts";
import type { ObjectRef, RenderedChart } from "../manifest/manifest.ts";
import { BrokenRecordError } from "../binary/helm-errors.ts";
import { assertManifestSize, assertWatchable, parseBoundedDocuments } from "./record-limits.ts";
import { GO_CONFIG_KEY, type ReleaseMeta } from "./revisions.ts";

/** Maximal size of an uncompressed record in bytes. */
const MAX_UNPACKED_BYTES = 64 * 1024 * 1024;
const gunzipAsync = promisify(gunzip);
const gzipAsync = promisify(gzip);

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
  /** When helm deletes its object: `before-hook-creation` and so on. */
  readonly deletePolicies: readonly string[];
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
  /** helm's description of the revision; its error where it failed. */
  readonly description: string | undefined;
}

/** Parses `data.release` of a release Secret. Throws SyntaxError for anything else. */
export async function decodeRelease(data: string): Promise<ReleaseRecord> {
  // Values may be nested so deeply that recursive functions would overflow the stack.
  const json = cutDeepParts(await decodeJson(data));
  const chart = objectOf(objectOf(json["chart"])["metadata"]);
  return {
    manifest: asString(json["manifest"]) ?? "",
    hooks: objectsIn(json["hooks"]).map(parseHook),
    config: objectOf(json["config"]),
    chartVersion: asString(chart["version"]),
    lastDeployed: parseTime(objectOf(json["info"])["last_deployed"]),
    applyMethod: json["apply_method"] === "ssa" ? "ssa" : "csa",
    description: asString(objectOf(json["info"])["description"]),
  };
}

/** Parses one hook of a record. Missing fields become empty values. */
function parseHook(json: JsonObject): HookRecord {
  const run = objectOf(json["last_run"]);
  return {
    manifest: asString(json["manifest"]) ?? "",
    object: `${asString(json["kind"]) ?? ""}/${asString(json["name"]) ?? ""}`,
    events: filterTexts(json["events"]),
    phase: asString(run["phase"]),
    startedAt: parseTime(run["started_at"]),
    deletePolicies: filterTexts(json["delete_policies"]),
  };
}

function filterTexts(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

/** A change of the manifest of a record, or of that of one of its hooks. */
export type ManifestChange = (manifest: string, isHook: boolean) => string;

/** A change of a record: its status and description, its manifests, or its namespace. */
export interface RecordChange {
  readonly info?: JsonObject;
  readonly namespace?: string;
  readonly mapManifests?: ManifestChange;
}

/** Decodes a record, changes it, and encodes it again as helm itself does. Throws SyntaxError, DepthError. */
export async function changeEncodedRecord(data: string, change: RecordChange): Promise<string> {
  const json = await decodeJson(data);
  const { info, mapManifests, namespace } = change;
  return encodeRecord({
    ...json,
    ...(namespace !== undefined && { namespace }),
    ...(info && { info: { ...objectOf(json["info"]), ...info } }),
    ...(mapManifests && mapRecordManifests(json, mapManifests)),
  });
}

/** Applies a change to the manifest and to the manifests of all hooks of a record. Returns only these members. */
function mapRecordManifests(json: JsonObject, change: ManifestChange): JsonObject {
  const hooks = objectsIn(json["hooks"]).map((hook) => ({
    ...hook,
    manifest: change(asString(hook["manifest"]) ?? "", true),
  }));
  const hasHooks = Array.isArray(json["hooks"]);
  return { manifest: change(asString(json["manifest"]) ?? "", false), ...(hasHooks && { hooks }) };
}

/** Encodes a record as helm does. Throws DepthError for values that are nested so deeply that their conversion would overflow the stack. */
async function encodeRecord(json: JsonObject): Promise<string> {
  if (isTooDeep(json)) throw new DepthError("the release record");
  const packed = await gzipAsync(Buffer.from(JSON.stringify(json)));
  return Buffer.from(packed.toString("base64")).toString("base64");
}

/** Decodes a record. Very old records are not compressed. Throws SyntaxError. */
async function decodeJson(data: string): Promise<JsonObject> {
  const bytes = Buffer.from(Buffer.from(data, "base64").toString("latin1"), "base64");
  const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const plain = isGzip ? await decompress(bytes) : bytes;
  const value = parseJson(plain.toString("utf8"));
  if (!isJsonObject(value)) throw new SyntaxError("it is no object");
  assertManifestSize([value, ...objectsIn(value["hooks"])].map((each) => asString(each["manifest"]) ?? ""));
  return value;
}

/** Parses JSON without V8's error message, which quotes the text and may contain secrets. */
function parseJson(text: string): unknown {
  try {
    return readJson(text);
  } catch {
    throw new SyntaxError("it is no JSON");
  }
}

/** Decompresses a record, up to a limit that protects the memory of the operator. Throws SyntaxError. */
async function decompress(bytes: Buffer): Promise<Buffer> {
  try {
    return await gunzipAsync(bytes, { maxOutputLength: MAX_UNPACKED_BYTES });
  } catch (error) {
    throw new SyntaxError(`it cannot be unpacked: ${oneLine(error)}`);
  }
}

/** Parses a time to ms since the epoch; undefined without one. Go writes its zero time, in the year 1, if there is no time. */
function parseTime(value: unknown): number | undefined {
  const time = Date.parse(asString(value) ?? "");
  return time > 0 ? time : undefined;
}

/** The part of a release record that stays in memory; `objects` are its lasting objects. */
export interface ReleaseSummary
  extends RenderedChart, Pick<ReleaseRecord, "chartVersion" | "lastDeployed" | "applyMethod"> {
  /** An older Go operator left its checksum among the release's values. */
  readonly hasGoOperatorMark: boolean;
  /** Objects whose data a move of the release would delete. */
  readonly dataObjects: readonly ObjectRef[];
}

/**
 * Extracts the facts that later decisions need from a record, so that the whole record need not stay in memory. `adoptionChecksum` is for
 * the comparison of a release of the Go operator. Throws SyntaxError for a record that needs too much work.
 */
export async function summarize(record: ReleaseRecord): Promise<ReleaseSummary> {
  const documents = await parseBoundedDocuments([record.manifest]);
  const hooks = await parseBoundedDocuments(record.hooks.map(({ manifest }) => manifest));
  const allDocuments = [...documents, ...hooks];
  const objects = listLastingObjects(documents).map(({ ref }) => ref);
  assertWatchable(objects, "it has");
  return {
    objects,
    hooks: listHookObjects(hooks),
    checksum: manifestChecksum(allDocuments),
    adoptionChecksum: adoptionChecksum(allDocuments),
    chartVersion: record.chartVersion,
    lastDeployed: record.lastDeployed,
    applyMethod: record.applyMethod,
    hasGoOperatorMark: record.config[GO_CONFIG_KEY] !== undefined,
    dataObjects: listNamedObjects(documents).flatMap(({ ref, body }) => (containsData(body) ? ref : [])),
  };
}

/** Whether an object contains data: a claim of a volume, a StatefulSet with claims, or a Namespace with all its objects. */
function containsData({ apiVersion, kind, spec }: JsonObject): boolean {
  if (apiVersion === "v1") return kind === "PersistentVolumeClaim" || kind === "Namespace";
  const claims = objectOf(spec)["volumeClaimTemplates"];
  return apiVersion === "apps/v1" && kind === "StatefulSet" && Array.isArray(claims) && claims.length > 0;
}

export interface SecretTarget {
  readonly namespace: string;
  readonly name: string;
}

/** The Secret of a revision, as the target of requests. */
export function secretRef({ namespace, secret }: ReleaseMeta) {
  return { resource: SECRETS, namespace, name: secret };
}

/**
 * Asks the API server, without a change, why it refuses that helm marks a release as uninstalled; undefined if it does not. helm ignores
 * the refusal.
 */
export async function findWriteRefusal(client: KubeClient, meta: ReleaseMeta): Promise<string | undefined> {
  const target = secretRef(meta);
  try {
    const secret = await get<Secret>(client, target);
    const labels = { ...secret.metadata.labels, status: "uninstalled" };
    const metadata = { ...secret.metadata, labels, resourceVersion: undefined };
    await replace(client, target, { body: { ...secret, metadata }, dryRun: true });
    return undefined;
  } catch (error) {
    return oneLine(error);
  }
}

/** The key of a Secret in an ObjectStore. */
export function secretKey({ namespace, name }: SecretTarget): string {
  return `${namespace}/${name}`;
}

/** Reads the encoded record from the Secret of a revision. Throws BrokenRecordError if there is none. */
export function readEncodedRecord(meta: ReleaseMeta, secret: JsonObject): string {
  const data = isJsonObject(secret["data"]) ? secret["data"]["release"] : undefined;
  if (typeof data !== "string") throw new BrokenRecordError(meta, "it contains no release");
  return data;
}

/**
 * Waits for the decoding of a record. Converts the SyntaxError of an invalid record into a BrokenRecordError, which names the
 * Secret for the user.
 */
export async function withSecretInError<T>(meta: ReleaseMeta, decoding: Promise<T>): Promise<T> {
  try {
    return await decoding;
  } catch (error) {
    const isUnnamed = error instanceof SyntaxError && !(error instanceof BrokenRecordError);
    throw isUnnamed ? new BrokenRecordError(meta, error.message) : error;
  }
}

interface CachedSummary {
  readonly uid: string;
  readonly reading: Promise<ReleaseSummary>;
  /** Undefined while the record is being read. */
  summary: ReleaseSummary | undefined;
  /** The version of the Secret, if its record is broken: it stays broken until somebody writes the Secret. */
  brokenVersion: string | undefined;
}

/** Summaries of releases, one for each release: a record has up to 1 MiB, and each run needs the same few facts again. */
export class SummaryCache {
  readonly #load: (meta: ReleaseMeta) => Promise<ReleaseSummary>;
  readonly #cachedByRelease = new Map<string, CachedSummary>();

  constructor(load: (meta: ReleaseMeta) => Promise<ReleaseSummary>) {
    this.#load = load;
  }

  /**
   * The summary of a revision, read at the first call. Concurrent callers share one read. A failed read is repeated by the next call, that of
   * a broken record only after a change of its Secret.
   */
  async read(meta: ReleaseMeta): Promise<ReleaseSummary> {
    const { uid, resourceVersion } = meta;
    const known = this.#cachedByRelease.get(meta.name);
    // Another uid is another revision: each has a Secret of its own.
    const isCurrent = known?.uid === uid && (known.brokenVersion ?? resourceVersion) === resourceVersion;
    if (isCurrent) return known.reading;
    const cached: CachedSummary = {
      uid,
      reading: this.#load(meta),
      summary: undefined,
      brokenVersion: undefined,
    };
    this.#cachedByRelease.set(meta.name, cached);
    try {
      cached.summary = await cached.reading;
      return cached.summary;
    } catch (error) {
      // A read of another revision may have replaced the entry meanwhile.
      if (error instanceof BrokenRecordError) cached.brokenVersion = resourceVersion;
      else if (this.#cachedByRelease.get(meta.name) === cached) this.forget(meta.name);
      throw error;
    }
  }

  /** The summary of a revision that was read before. Sends no request. */
  get(meta: ReleaseMeta): ReleaseSummary | undefined {
    const known = this.#cachedByRelease.get(meta.name);
    return known?.uid === meta.uid ? known.summary : undefined;
  }

  /** Discards the summary of a release, because its record has changed or may have. */
  forget(release: string): void {
    this.#cachedByRelease.delete(release);
  }
}
