/** Reads rendered manifests: documents, objects, checksums, and what changes between two, for people. */

import { diffArrays } from "diff";

import { canonicalJson, digest, parseYaml, toYaml } from "../../lib/index.ts";
import { isJsonObject, objectOf, asString, type Json, type JsonObject } from "../../model/index.ts";

/** An object of a release. `namespace` as the manifest has it; undefined = the release's, or none. */
export interface ObjectRef {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string | undefined;
  readonly name: string;
}

/** The separator of documents. */
export const SEPARATOR = /^---(?:[ \t].*)?$/m;

/** The documents of a rendered manifest; texts that are not YAML stay texts, empty ones are left out. */
export function documentsOf(manifest: string): Json[] {
  return manifest
    .split(SEPARATOR)
    .map(parseManifestDocument)
    .filter((document) => document !== null);
}

/** One document; a text that is not YAML stays a text. */
export function parseManifestDocument(text: string): Json {
  try {
    return parseYaml(text, "manifest").value;
  } catch {
    return text.trim();
  }
}

/**
 * Checksum of the meaning of a manifest: white space, comments and the order of documents and keys do not count.
 * `parts` are manifests and hooks of one release.
 */
export function manifestChecksum(documents: readonly Json[]): string {
  return digest(...documents.map(canonicalJson).sort());
}

/** As `manifestChecksum`, without the `heritage` label that the Go operator puts on every object. */
export function adoptionChecksum(documents: readonly Json[]): string {
  return manifestChecksum(documents.map(withoutHeritage));
}

function withoutHeritage(document: Json): Json {
  const metadata = isJsonObject(document) ? document["metadata"] : undefined;
  const labels = isJsonObject(metadata) ? metadata["labels"] : undefined;
  if (!isJsonObject(document) || !isJsonObject(metadata) || !isJsonObject(labels)) return document;
  const { heritage: _, ...kept } = labels;
  const { labels: __, ...rest } = metadata;
  return { ...document, metadata: Object.keys(kept).length === 0 ? rest : { ...rest, labels: kept } };
}

/**
 * The objects of a release that should always exist: without helm hooks, objects with a delete policy, Jobs with a
 * TTL.
 */
export function lastingObjects(documents: readonly Json[]): ObjectRef[] {
  return lastingBodies(documents).flatMap(refOf);
}

/** As `lastingObjects`, with all that the manifest says of them. */
export function lastingBodies(documents: readonly Json[]): JsonObject[] {
  return bodiesOf(documents).filter((object) => !isShortLived(object));
}

/** The objects that should always exist, by `keyIn`. */
export function lastingByKey(
  documents: readonly Json[],
  namespace: string,
): Map<string, { readonly ref: ObjectRef; readonly body: JsonObject }> {
  const keyed = lastingBodies(documents).flatMap((body) =>
    refOf(body).map((ref) => [keyIn(namespace, ref), { ref, body }] as const),
  );
  return new Map(keyed);
}

/** All objects of a manifest. */
export function objectsOf(documents: readonly Json[]): ObjectRef[] {
  return bodiesOf(documents).flatMap(refOf);
}

/** An object that helm creates as a hook, and the events at which it does, e.g. `pre-install`. */
export interface HookObject {
  readonly ref: ObjectRef;
  readonly events: readonly string[];
}

/** The objects of helm's hooks in a manifest. */
export function hookObjects(documents: readonly Json[]): HookObject[] {
  return documents.flatMap((document) => {
    const events = hookEvents(document);
    return events === undefined ? [] : objectsOf([document]).map((ref) => ({ ref, events }));
  });
}

/** The events of a document that is a hook; undefined where it is none. Of a list its own annotation counts, as for helm. */
export function hookEvents(document: Json): string[] | undefined {
  const metadata = objectOf(objectOf(document)["metadata"]);
  const events = asString(objectOf(metadata["annotations"])[HOOK]);
  return events?.split(",").map((event) => event.trim().toLowerCase());
}

/** As `objectsOf`, with all that the manifest says of them. */
export function bodiesOf(documents: readonly Json[]): JsonObject[] {
  return documents.flatMap(expand).filter(isJsonObject);
}

/** For people: `namespace/Kind/name`, or `Kind/name`. */
export function resourceName({ namespace, kind, name }: Omit<ObjectRef, "apiVersion">): string {
  return [...(namespace === undefined ? [] : [namespace]), kind, name].join("/");
}

/** Identifies objects of a manifest. */
export function resourceKey({ apiVersion, kind, namespace, name }: ObjectRef): string {
  return canonicalJson([apiVersion, kind, namespace ?? null, name]);
}

/** A key that is the same whether an object names its namespace or inherits that of the release. */
export function keyIn(namespace: string, object: ObjectRef): string {
  return resourceKey({ ...object, namespace: object.namespace ?? namespace });
}

/** The items of a list, recursively; any other document itself. */
export function expand(document: Json): Json[] {
  return listItems(objectOf(document))?.flatMap(expand) ?? [document];
}

/** The items of a list; undefined if the document is none. */
export function listItems({ apiVersion, kind, items }: JsonObject): readonly Json[] | undefined {
  const isList = typeof apiVersion === "string" && typeof kind === "string" && kind.endsWith("List");
  return isList && Array.isArray(items) ? items : undefined;
}

const HOOK = "helm.sh/hook";
const SHORT_LIVED_ANNOTATIONS = [HOOK, "helm.sh/hook-delete-policy"];

/** Whether an object may disappear by itself: a hook, an object with a delete policy, or a Job with a TTL. */
function isShortLived(object: JsonObject): boolean {
  const annotations = objectOf(objectOf(object["metadata"])["annotations"]);
  if (SHORT_LIVED_ANNOTATIONS.some((name) => annotations[name] !== undefined)) return true;
  return object["kind"] === "Job" && typeof objectOf(object["spec"])["ttlSecondsAfterFinished"] === "number";
}

/** The reference to an object as a list of one. Empty for anything that does not name an object. */
export function refOf(object: JsonObject): ObjectRef[] {
  const { apiVersion, kind } = object;
  const { name, namespace } = objectOf(object["metadata"]);
  if (typeof apiVersion !== "string" || typeof kind !== "string" || typeof name !== "string") return [];
  return [{ apiVersion, kind, name, namespace: asString(namespace) }];
}

/** An object that differs between two manifests or is in only one of them. */
export interface ChangedObject {
  /** Version, kind, namespace and name. */
  readonly name: string;
  readonly change: "added" | "removed" | "changed";
  /** Its changed lines, and a few around them, beginning with `-`, `+` or a blank. */
  readonly difference: () => string;
}

/** What changes between two manifests, object by object. The order of objects and keys does not count. */
export function changedObjects(before: readonly string[], after: readonly string[]): ChangedObject[] {
  const old = byIdentity(before);
  const now = byIdentity(after);
  const names = [...new Set([...old.keys(), ...now.keys()])].sort();
  return names
    .filter((name) => old.get(name) !== now.get(name))
    .map((name) => ({
      name,
      change: !old.has(name) ? "added" : now.has(name) ? "changed" : "removed",
      difference: () => differenceOf(linesOf(old.get(name)), linesOf(now.get(name))),
    }));
}

/** `changedObjects` as text; empty where the manifests mean the same. */
export function manifestDiff(before: readonly string[], after: readonly string[]): string {
  return changedObjects(before, after)
    .map(({ name, difference }) => `# ${name}\n${difference()}`)
    .join("");
}

/** What changes between two versions of an object: changed lines, and a few around them; "" for nothing. */
export function diffOf(before: Json | undefined, after: Json | undefined): string {
  const [old, now] = [before, after].map((object) =>
    object === undefined ? [] : linesOf(toYaml(JSON.parse(canonicalJson(object)) as Json)),
  );
  return differenceOf(old ?? [], now ?? []);
}

function differenceOf(old: string[], now: string[]): string {
  return withContext(lineDiff(old, now))
    .map((line) => `${line}\n`)
    .join("");
}

/** Fields of metadata that only the server writes. */
const SERVERS_OWN = ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"];

/** An object without its status and what only the server writes. */
export function plain({ status: _status, ...object }: JsonObject): JsonObject {
  const metadata = Object.entries(objectOf(object["metadata"])).filter(([key]) => !SERVERS_OWN.includes(key));
  return { ...object, metadata: Object.fromEntries(metadata) };
}

const CONTEXT = 3;

/** Replaces lines far from any change with `…`. */
function withContext(lines: readonly string[]): string[] {
  const changes = lines.flatMap((line, index) => (line.startsWith(" ") ? [] : [index]));
  const near = new Set(
    changes.flatMap((at) => Array.from({ length: 2 * CONTEXT + 1 }, (_, by) => at + by - CONTEXT)),
  );
  if (changes.length === 0) return [];
  return lines.flatMap((line, index) => {
    if (near.has(index)) return [line];
    return index === 0 || near.has(index - 1) ? [" …"] : [];
  });
}

/** The documents of manifests as canonical YAML, by version, kind, namespace and name. */
function byIdentity(manifests: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const document of manifests.flatMap(documentsOf)) {
    const name = identityOf(document);
    found.set(name, `${found.get(name) ?? ""}${toYaml(JSON.parse(canonicalJson(document)) as Json)}`);
  }
  return found;
}

function identityOf(document: Json): string {
  if (!isJsonObject(document)) return "text";
  const metadata = objectOf(document["metadata"]);
  const parts = [document["apiVersion"], document["kind"], metadata["namespace"], metadata["name"]];
  return parts.filter((part) => typeof part === "string").join(" ");
}

function linesOf(text: string | undefined): string[] {
  return text === undefined ? [] : text.trimEnd().split("\n");
}

/** Above this number of changes, the diff removes all old lines and adds all new ones. */
const MOST_CHANGES = 4_000;

/** A line diff by the longest common subsequence. */
function lineDiff(old: string[], now: string[]): string[] {
  const parts = diffArrays(old, now, { maxEditLength: MOST_CHANGES });
  if (parts === undefined) return [...old.map((line) => `-${line}`), ...now.map((line) => `+${line}`)];
  return parts.flatMap(({ value, added, removed }) => {
    const mark = added ? "+" : removed ? "-" : " ";
    return value.map((line) => mark + line);
  });
}

/** A rendered chart, with its checksums. */
export interface Rendered {
  readonly checksum: string;
  /** For comparing with a release that the Go operator made. */
  readonly adoptionChecksum: string;
  readonly objects: readonly ObjectRef[];
  readonly hooks: readonly HookObject[];
}
