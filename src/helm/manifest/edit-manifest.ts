/** Changes objects of a manifest; documents that stay the same keep their text. */

import { toYamlSafeJson } from "../../lib/index.ts";
import { isJsonObject, objectOf, type JsonObject, asString } from "../../model/index.ts";
import {
  expandLists,
  getListItems,
  kindKey,
  parseManifestDocument,
  parseObjectRef,
  resourceKey,
  DOCUMENT_SEPARATOR,
  type ObjectRef,
  listManifestObjects,
  parseDocuments,
} from "./manifest.ts";
import type { ReleaseCheckTools } from "../types.ts";

/** Removes objects from a manifest. Documents without such an object keep their text. */
export function withoutObjects(manifest: string, objects: readonly ObjectRef[]): string {
  const unwanted = new Set(objects.map(resourceKey));
  return mapDocuments(manifest, (document) => {
    const all = expandLists(document).filter(isJsonObject);
    const wanted = all.filter((object) => {
      const ref = parseObjectRef(object);
      return ref === undefined || !unwanted.has(resourceKey(ref));
    });
    if (wanted.length === all.length) return document;
    // Only a list is more than one object.
    return wanted.length === 0 ? undefined : { ...document, items: wanted };
  });
}

/**
 * Moves objects of a manifest to the version that `served` has for their kind (by `kindKey`), and removes those for which it has
 * undefined. Other documents keep their text.
 */
export function withServedVersions(
  manifest: string,
  served: ReadonlyMap<string, string | undefined>,
): string {
  return mapDocuments(manifest, (document) => {
    const all = expandLists(document).filter(isJsonObject);
    const moved = all.flatMap((object) => {
      const ref = parseObjectRef(object);
      if (ref === undefined || !served.has(kindKey(ref))) return [object];
      const apiVersion = served.get(kindKey(ref));
      return apiVersion === undefined ? [] : [{ ...object, apiVersion }];
    });
    if (all.every((object, index) => object === moved[index])) return document;
    const isList = getListItems(document) !== undefined;
    return isList && moved.length > 0 ? { ...document, items: moved } : moved[0];
  });
}

/**
 * Returns a function that adds `namespace` to the objects of one of these manifests that name none, so that the objects stay where
 * they are when their release moves. Looks up the kinds of all objects, because a manifest does not contain the scope of a kind;
 * objects of kinds that the server does not know get no namespace.
 */
export async function createNamespaceAdder(
  discovery: ReleaseCheckTools["discovery"],
  manifests: readonly string[],
  namespace: string,
): Promise<(manifest: string) => string> {
  const isNamespacedByKind = new Map<string, boolean>();
  for (const object of listManifestObjects(manifests.flatMap(parseDocuments))) {
    const key = versionAndKind(object);
    if (isNamespacedByKind.has(key)) continue;
    const { kind, apiVersion } = object;
    const resource = await discovery.resolve(asString(kind) ?? "", asString(apiVersion) ?? "");
    isNamespacedByKind.set(key, resource?.namespaced === true);
  }
  return (manifest) => mapDocuments(manifest, withNamespace);

  /** Returns the same document if nothing changes, so that `mapDocuments` keeps its text. */
  function withNamespace(document: JsonObject): JsonObject {
    const items = getListItems(document);
    if (items !== undefined) {
      const changed = items.map((item) => (isJsonObject(item) ? withNamespace(item) : item));
      const isUnchanged = changed.every((item, index) => item === items[index]);
      return isUnchanged ? document : { ...document, items: changed };
    }
    const metadata = objectOf(document["metadata"]);
    const namesNamespace = typeof metadata["namespace"] === "string";
    const isObject = parseObjectRef(document) !== undefined;
    const isNamespaced = isNamespacedByKind.get(versionAndKind(document)) === true;
    if (namesNamespace || !isObject || !isNamespaced) return document;
    return { ...document, metadata: { ...metadata, namespace } };
  }
}

function versionAndKind({ apiVersion, kind }: JsonObject): string {
  return `${asString(apiVersion) ?? ""} ${asString(kind) ?? ""}`;
}

/** Changes the documents of a manifest. `change` returns the same object to keep the text of a document, and undefined to remove it. */
function mapDocuments(manifest: string, change: (document: JsonObject) => JsonObject | undefined): string {
  return manifest
    .split(DOCUMENT_SEPARATOR)
    .map((text) => {
      const document = parseManifestDocument(text);
      if (!isJsonObject(document)) return text;
      const changed = change(document);
      if (changed === document) return text;
      return changed === undefined ? "\n" : `\n${toYamlSafeJson(changed)}\n`;
    })
    .join("---");
}
