/** Reads rendered manifests: documents, objects, checksums, and what changes between two, for people. */

import { diffArrays } from "diff";

import { canonicalJson, digest, parseYaml, toYaml } from "../../lib/index.ts";
import { isJsonObject, objectOf, textOf, type Json, type JsonObject } from "../../model/index.ts";

/** An object of a release. `namespace` as the manifest has it; undefined = the release's, or none. */
export interface ObjectRef {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string | undefined;
  readonly name: string;
}

const SEPARATOR = /^---(?:[ \t].*)?$/m;

/** The documents of a rendered manifest; texts that are not YAML stay texts, empty ones are left out. */
export function documentsOf(manifest: string): Json[] {
  return manifest
    .split(SEPARATOR)
    .map(parseDocument)
    .filter((document) => document !== null);
}

function parseDocument(text: string): Json {
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
  return bodiesOf(documents).filter((object) => !isPassing(object));
}

/** The same by `keyIn`. */
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

/** As `objectsOf`, with all that the manifest says of them. */
export function bodiesOf(documents: readonly Json[]): JsonObject[] {
  return documents.flatMap(expand).filter(isJsonObject);
}

/** For people: `namespace/Kind/name`, or `Kind/name`. */
export function nameOf({ namespace, kind, name }: Omit<ObjectRef, "apiVersion">): string {
  return [...(namespace === undefined ? [] : [namespace]), kind, name].join("/");
}

/** A manifest without some of its objects; the other documents are not changed at all. */
export function withoutObjects(manifest: string, objects: readonly ObjectRef[]): string {
  const unwanted = new Set(objects.map(keyOf));
  const isWanted = (object: JsonObject): boolean => refOf(object).every((ref) => !unwanted.has(keyOf(ref)));
  return manifest
    .split(SEPARATOR)
    .map((text) => withoutUnwanted(text, isWanted))
    .join("---");
}

/** Identifies objects of a manifest. */
export function keyOf({ apiVersion, kind, namespace, name }: ObjectRef): string {
  return canonicalJson([apiVersion, kind, namespace ?? null, name]);
}

/** The same for an object that names its namespace and one that leaves it to the release. */
export function keyIn(namespace: string, object: ObjectRef): string {
  return keyOf({ ...object, namespace: object.namespace ?? namespace });
}

function withoutUnwanted(text: string, isWanted: (object: JsonObject) => boolean): string {
  const document = parseDocument(text);
  if (!isJsonObject(document)) return text;
  const objects = expand(document).filter(isJsonObject);
  const wanted = objects.filter(isWanted);
  if (wanted.length === objects.length) return text;
  // Only a list is more than one object.
  return wanted.length === 0 ? "\n" : `\n${JSON.stringify({ ...document, items: wanted })}\n`;
}

/** What a list holds, lists in it included; anything else is itself. */
export function expand(document: Json): Json[] {
  const { apiVersion, kind, items } = objectOf(document);
  const isList = typeof apiVersion === "string" && typeof kind === "string" && kind.endsWith("List");
  return isList && Array.isArray(items) ? items.flatMap(expand) : [document];
}

const PASSING_ANNOTATIONS = ["helm.sh/hook", "helm.sh/hook-delete-policy"];

function isPassing(object: JsonObject): boolean {
  const annotations = objectOf(objectOf(object["metadata"])["annotations"]);
  if (PASSING_ANNOTATIONS.some((name) => annotations[name] !== undefined)) return true;
  return object["kind"] === "Job" && typeof objectOf(object["spec"])["ttlSecondsAfterFinished"] === "number";
}

/** Empty for anything that does not name an object. */
export function refOf(object: JsonObject): ObjectRef[] {
  const { apiVersion, kind } = object;
  const { name, namespace } = objectOf(object["metadata"]);
  if (typeof apiVersion !== "string" || typeof kind !== "string" || typeof name !== "string") return [];
  return [{ apiVersion, kind, name, namespace: textOf(namespace) }];
}

/** An object that two manifests do not have in common, or not with the same content. */
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

/** The same as text; empty when they mean the same. */
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

/** What the server alone writes, and changes with each write. */
const SERVERS_OWN = ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"];

/** An object without its status and what only the server writes. */
export function plain({ status: _status, ...object }: JsonObject): JsonObject {
  const metadata = Object.entries(objectOf(object["metadata"])).filter(([key]) => !SERVERS_OWN.includes(key));
  return { ...object, metadata: Object.fromEntries(metadata) };
}

const CONTEXT = 3;

/** Leaves out what is far from any change; `…` stands for it. */
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

/** With more changes than these, all old lines are removed and all new ones added. */
const MOST_CHANGES = 4_000;

/** The longest common lines stay, the others are removed or added. */
function lineDiff(old: string[], now: string[]): string[] {
  const parts = diffArrays(old, now, { maxEditLength: MOST_CHANGES });
  if (parts === undefined) return [...old.map((line) => `-${line}`), ...now.map((line) => `+${line}`)];
  return parts.flatMap(({ value, added, removed }) => {
    const mark = added ? "+" : removed ? "-" : " ";
    return value.map((line) => mark + line);
  });
}
