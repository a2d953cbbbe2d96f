/** The records that helm keeps of releases, in Secrets: read, and written where helm does not. */

import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";

import { get, ignoreNotFound, mergePatch, remove, SECRETS, type WatchedObject } from "../../kube/index.ts";
import { cutDeep, DepthError, isTooDeep, oneLine } from "../../lib/index.ts";
import { isJsonObject, objectOf, objectsIn, textOf, type JsonObject } from "../../model/index.ts";
import { BrokenRecordError } from "../binary/helm-errors.ts";
import { adoptionChecksum, documentsOf, lastingObjects, manifestChecksum } from "../manifest/manifest.ts";
import type { Rendered } from "../rendering.ts";
import { GO_CONFIG_KEY, LABELS, Revisions, type ReleaseMeta } from "./revisions.ts";

/** What was read of a revision; all who ask while it is being read share the answer. */
interface Summary {
  readonly uid: string;
  readonly summary: Promise<ReleaseSummary>;
  value: ReleaseSummary | undefined;
}

/**
 * The releases of one namespace; the content of a Secret is read only when it is needed, and written only where helm does
 * not.
 */
export class ReleaseStore extends Revisions {
  readonly #summaries = new Map<string, Summary>();

  /** What the record of a revision says; of each release the last one that was asked for is kept. Throws ApiError, or BrokenRecordError. */
  async summary(meta: ReleaseMeta): Promise<ReleaseSummary> {
    const known = this.#summaries.get(meta.name);
    if (known?.uid === meta.uid) return known.summary;
    const read: Summary = { uid: meta.uid, summary: this.record(meta).then(summarize), value: undefined };
    this.#summaries.set(meta.name, read);
    try {
      read.value = await read.summary;
      return read.value;
    } catch (error) {
      if (this.#summaries.get(meta.name) === read) this.#summaries.delete(meta.name);
      throw error;
    }
  }

  /** The record of a revision as it is now: one request. Throws as `summary`. */
  async record(meta: ReleaseMeta, signal?: AbortSignal): Promise<ReleaseRecord> {
    return readable(meta, decodeRelease(await this.#data(meta, signal)));
  }

  /** Manifest and helm hooks as a revision's record has them. Throws as `summary`. */
  async manifests(meta: ReleaseMeta, signal?: AbortSignal): Promise<string[]> {
    const { manifest, hooks } = await this.record(meta, signal);
    return [manifest, ...hooks.map((hook) => hook.manifest)];
  }

  /** As `summary`, if it is known already. */
  knownSummary(meta: ReleaseMeta): ReleaseSummary | undefined {
    const known = this.#summaries.get(meta.name);
    return known?.uid === meta.uid ? known.value : undefined;
  }

  /** Sets labels of a revision's Secret, and removes those that are null; helm's own stay. */
  async label(
    meta: ReleaseMeta,
    labels: Readonly<Record<string, string | null>>,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#patch(meta, { metadata: { labels } }, signal);
    this.tell(meta.name);
  }

  /** Marks a revision failed, label and record, as helm would have done. */
  async markFailed(meta: ReleaseMeta, description: string, signal?: AbortSignal): Promise<void> {
    const info = { status: "failed", description };
    await this.#rewrite(meta, { change: { info }, labels: { status: info.status }, signal });
  }

  /** Rejects a revision: sets labels of its Secret, and says why in its record. */
  async reject(
    meta: ReleaseMeta,
    { labels, why }: { readonly labels: Readonly<Record<string, string>>; readonly why: string },
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#rewrite(meta, { change: { info: { description: why } }, labels, signal });
  }

  /** Replaces the manifest in the record of a revision; labels that describe the old one are removed. */
  async replaceManifest(meta: ReleaseMeta, manifest: string, signal?: AbortSignal): Promise<void> {
    const labels = { [LABELS.inputs]: null, [LABELS.manifest]: null };
    await this.#rewrite(meta, { change: { manifest }, labels, signal });
  }

  /** Fails when the record has changed since it was read. */
  async #rewrite(
    meta: ReleaseMeta,
    to: {
      readonly change: RecordChange;
      readonly labels: Readonly<Record<string, string | null>>;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<void> {
    const { change, labels, signal } = to;
    const release = await readable(meta, encodeChanged(await this.#data(meta, signal), change));
    const metadata = { resourceVersion: meta.resourceVersion, labels };
    try {
      await this.#patch(meta, { metadata, data: { release } }, signal);
    } finally {
      // Also where the answer was lost: the server may have the new one.
      this.#summaries.delete(meta.name);
    }
    this.tell(meta.name);
  }

  async #patch(meta: ReleaseMeta, body: object, signal: AbortSignal | undefined): Promise<void> {
    const { client, namespace } = this.options;
    const target = { resource: SECRETS, namespace, name: meta.secret };
    await this.asking(async () =>
      this.answered(await mergePatch<WatchedObject>(client, target, { body, signal })),
    );
  }

  /** Deletes all records of a release, never its objects. */
  async forget(name: string, signal?: AbortSignal): Promise<void> {
    const { client, namespace } = this.options;
    await this.refresh(name, signal);
    // Oldest first: as long as one is left, the newest shows the state of the release.
    for (const meta of this.revisions(name).reverse()) {
      const target = { resource: SECRETS, namespace, name: meta.secret };
      await remove(client, target, { signal, preconditions: { uid: meta.uid } }).catch(ignoreNotFound);
    }
    this.#summaries.delete(name);
    await this.refresh(name, signal);
  }

  async #data(meta: ReleaseMeta, signal?: AbortSignal): Promise<string> {
    const { client, namespace } = this.options;
    const secret = await get(client, { resource: SECRETS, namespace, name: meta.secret }, { signal });
    const data = isJsonObject(secret["data"]) ? secret["data"]["release"] : undefined;
    if (typeof data !== "string") throw new BrokenRecordError(meta.secret, "it holds no release");
    return data;
  }
}

async function readable<T>(meta: ReleaseMeta, read: Promise<T>): Promise<T> {
  try {
    return await read;
  } catch (error) {
    throw error instanceof SyntaxError ? new BrokenRecordError(meta.secret, error.message) : error;
  }
}

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

/** What is changed in a record: what helm says became of the revision, or its manifest. */
interface RecordChange {
  readonly info?: JsonObject;
  readonly manifest?: string;
}

/** The same record with a change, as helm itself would write it. */
export async function encodeChanged(data: string, { info, ...change }: RecordChange): Promise<string> {
  const json = await decodeJson(data);
  return encode({ ...json, ...change, ...(info && { info: { ...objectOf(json["info"]), ...info } }) });
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
