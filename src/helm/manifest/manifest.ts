/** Reads rendered manifests: documents, objects, hooks, and checksums. */

import { canonicalJson, digestAll, parseYaml } from "../../base/index.ts";
import { isJsonObject, objectOf, asString, type Json, type JsonObject } from "../../base/model/index.ts";

/** An object of a release. `namespace` as the manifest has it; undefined = the release's, or none. */
export interface ObjectRef {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string | undefined;
  readonly name: string;
}

/** The separator of documents. Only a line feed begins a line, as for helm: with the flag m, U+2028 in a text would, too. */
const DOCUMENT_SEPARATOR = /(?<=^|\n)---(?:[ \t\r][^\n]*)?(?=\n|$)/;

/** Splits a manifest into the texts of its documents, which `---` joins. */
export function splitDocuments(manifest: string): string[] {
  return manifest.split(DOCUMENT_SEPARATOR);
}

/** Parses the documents of a rendered manifest. Text that is not YAML stays text; empty documents are left out. */
export function parseDocuments(manifest: string): Json[] {
  return splitDocuments(manifest)
    .map(parseManifestDocument)
    .filter((document) => document !== null);
}

/** Parses one document of a manifest. Text that is not YAML stays text. */
export function parseManifestDocument(text: string): Json {
  try {
    return parseYaml(text, "manifest").value;
  } catch {
    return text.trim();
  }
}

/** Checksum of what manifests and hooks of a release mean: white space, comments and the order of documents and keys do not count. */
export function manifestChecksum(documents: readonly Json[]): string {
  return digestAll(documents.map(canonicalJson).sort());
}

/**
 * As `manifestChecksum`, without the `heritage` label that the Go operator puts on every object: so a release of the Go
 * operator can be compared with a rendering of this one.
 */
export function adoptionChecksum(documents: readonly Json[]): string {
  return manifestChecksum(documents.map(withoutHeritage));
}

/** Removes the label `heritage` from an object, and `labels` if no other label remains. */
function withoutHeritage(document: Json): Json {
  const metadata = isJsonObject(document) ? document["metadata"] : undefined;
  const labels = isJsonObject(metadata) ? metadata["labels"] : undefined;
  if (!isJsonObject(document) || !isJsonObject(metadata) || !isJsonObject(labels)) return document;
  const { heritage: _, ...otherLabels } = labels;
  const { labels: __, ...otherMetadata } = metadata;
  const hasLabels = Object.keys(otherLabels).length > 0;
  return { ...document, metadata: { ...otherMetadata, ...(hasLabels && { labels: otherLabels }) } };
}

/** An object of a manifest, and its reference. */
export interface ManifestObject {
  readonly ref: ObjectRef;
  readonly body: JsonObject;
}

/** Lists the objects of a manifest, helm hooks included, except those without version, kind or name. */
export function listNamedObjects(documents: readonly Json[]): ManifestObject[] {
  return listManifestObjects(documents).flatMap((body) => {
    const ref = parseObjectRef(body);
    return ref === undefined ? [] : [{ ref, body }];
  });
}

/** References to all objects of a manifest, helm hooks included. */
export function listObjectRefs(documents: readonly Json[]): ObjectRef[] {
  return listNamedObjects(documents).map(({ ref }) => ref);
}

/**
 * Lists the objects of a release that should always exist, so that a missing one is restored. Helm hooks, objects with a delete policy and
 * Jobs with a TTL are left out, because they disappear by themselves.
 */
export function listLastingObjects(documents: readonly Json[]): ManifestObject[] {
  return listNamedObjects(documents).filter(({ body }) => !isShortLived(body));
}

/** Indexes the objects that should always exist by `namespacedKey`. `namespace` is that of the release. */
export function indexLastingObjects(
  documents: readonly Json[],
  namespace: string,
): Map<string, ManifestObject> {
  return new Map(
    listLastingObjects(documents).map((object) => [namespacedKey(namespace, object.ref), object]),
  );
}

/** An object that helm creates as a hook, and the events at which it does, e.g. `pre-install`. */
export interface HookObject {
  readonly ref: ObjectRef;
  readonly events: readonly string[];
  /** When helm deletes it: `before-hook-creation` and so on. */
  readonly deletePolicies: readonly string[];
}

/** What a chart renders: all objects, those of hooks included, and the hooks. */
export interface ManifestContent {
  readonly objects: readonly ObjectRef[];
  readonly hooks: readonly HookObject[];
}

/** Lists the objects and the hooks of a manifest. */
export function listContent(documents: readonly Json[]): ManifestContent {
  return { objects: listObjectRefs(documents), hooks: listHookObjects(documents) };
}

/** Lists the objects of a manifest that helm creates as hooks. */
export function listHookObjects(documents: readonly Json[]): HookObject[] {
  return documents.flatMap((document) => {
    const events = parseHookEvents(document);
    if (events === undefined) return [];
    const deletePolicies = parseWords(document, DELETE_POLICY_ANNOTATION) ?? ["before-hook-creation"];
    return listObjectRefs([document]).map((ref) => ({ ref, events, deletePolicies }));
  });
}

/**
 * The events at which helm runs a document as a hook, such as `pre-install`; undefined if the document is no hook. For a list, the
 * annotation of the list itself counts, as for helm.
 */
export function parseHookEvents(document: Json): string[] | undefined {
  return parseWords(document, HOOK_ANNOTATION);
}

/** The words, separated by commas, of an annotation of helm; undefined without the annotation. */
function parseWords(document: Json, annotation: string): string[] | undefined {
  const metadata = objectOf(objectOf(document)["metadata"]);
  const words = asString(objectOf(metadata["annotations"])[annotation]);
  return words?.split(",").map((word) => word.trim().toLowerCase());
}

/** All objects of a manifest, with the items of lists in place of the lists. */
export function listManifestObjects(documents: readonly Json[]): JsonObject[] {
  return documents.flatMap(expandLists).filter(isJsonObject);
}

/** For people: `namespace/Kind/name`, or `Kind/name`. */
export function resourceName({ namespace, kind, name }: Omit<ObjectRef, "apiVersion">): string {
  return [...(namespace === undefined ? [] : [namespace]), kind, name].join("/");
}

/** A key that identifies an object of a manifest; objects with and without a namespace have different keys. */
export function resourceKey({ apiVersion, kind, namespace, name }: ObjectRef): string {
  return canonicalJson([apiVersion, kind, namespace ?? null, name]);
}

/** A key of the kind of an object, in the version that the object names. */
export function kindKey({ apiVersion, kind }: Pick<ObjectRef, "apiVersion" | "kind">): string {
  return `${apiVersion} ${kind}`;
}

/** A key that is the same whether an object names its namespace or inherits `namespace`, that of the release. */
export function namespacedKey(namespace: string, object: ObjectRef): string {
  return resourceKey({ ...object, namespace: object.namespace ?? namespace });
}

/** Replaces a list, such as `kind: List`, by its items, recursively. Any other document is returned alone. */
export function expandLists(document: Json): Json[] {
  return getListItems(objectOf(document))?.flatMap(expandLists) ?? [document];
}

/** The items of a list such as `kind: List` or `kind: ConfigMapList`; undefined if the document is no list. */
export function getListItems({ apiVersion, kind, items }: JsonObject): readonly Json[] | undefined {
  const isList = typeof apiVersion === "string" && typeof kind === "string" && kind.endsWith("List");
  return isList && Array.isArray(items) ? items : undefined;
}

const HOOK_ANNOTATION = "helm.sh/hook";
const DELETE_POLICY_ANNOTATION = "helm.sh/hook-delete-policy";
const SHORT_LIVED_ANNOTATIONS = [HOOK_ANNOTATION, DELETE_POLICY_ANNOTATION];

/** Whether an object may disappear by itself: a hook, an object with a delete policy, or a Job with a TTL. */
function isShortLived(object: JsonObject): boolean {
  const annotations = objectOf(objectOf(object["metadata"])["annotations"]);
  if (SHORT_LIVED_ANNOTATIONS.some((name) => annotations[name] !== undefined)) return true;
  return object["kind"] === "Job" && typeof objectOf(object["spec"])["ttlSecondsAfterFinished"] === "number";
}

/** The reference to an object of a manifest; undefined if its version, kind or name is missing. */
export function parseObjectRef(object: JsonObject): ObjectRef | undefined {
  const { apiVersion, kind } = object;
  const { name, namespace } = objectOf(object["metadata"]);
  if (typeof apiVersion !== "string" || typeof kind !== "string" || typeof name !== "string")
    return undefined;
  return { apiVersion, kind, name, namespace: asString(namespace) };
}

/** A rendered chart, with its checksums. */
export interface RenderedChart extends ManifestContent {
  readonly checksum: string;
  /** For comparing with a release that the Go operator made. */
  readonly adoptionChecksum: string;
}
