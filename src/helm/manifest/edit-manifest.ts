/** Changes objects of a manifest; documents that stay the same keep their text. */

import { toYamlSafeJson } from "../../base/index.ts";
import { isJsonObject, objectOf, type JsonObject } from "../../base/model/index.ts";
import {
  getListItems,
  kindKey,
  listObjectRefs,
  parseDocuments,
  parseManifestDocument,
  parseObjectRef,
  resourceKey,
  splitDocuments,
  type ObjectRef,
} from "./manifest.ts";
import type { ReleaseCheckTools } from "../types.ts";

/** Removes objects from a manifest. */
export function withoutObjects(manifest: string, objects: readonly ObjectRef[]): string {
  const unwanted = new Set(objects.map(resourceKey));
  return mapObjects(manifest, (object, ref) => (unwanted.has(resourceKey(ref)) ? undefined : object));
}

/**
 * Moves objects of a manifest to the version that `served` has for their kind (by `kindKey`), and removes those for which it has
 * undefined.
 */
export function withServedVersions(
  manifest: string,
  served: ReadonlyMap<string, string | undefined>,
): string {
  return mapObjects(manifest, (object, ref) => {
    if (!served.has(kindKey(ref))) return object;
    const apiVersion = served.get(kindKey(ref));
    return apiVersion === undefined ? undefined : { ...object, apiVersion };
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
  for (const ref of listObjectRefs(manifests.flatMap(parseDocuments))) {
    if (isNamespacedByKind.has(kindKey(ref))) continue;
    const resource = await discovery.resolve(ref.kind, ref.apiVersion);
    isNamespacedByKind.set(kindKey(ref), resource?.namespaced === true);
  }
  return (manifest) =>
    mapObjects(manifest, (object, ref) => {
      const lacksNamespace = ref.namespace === undefined && isNamespacedByKind.get(kindKey(ref)) === true;
      return lacksNamespace
        ? { ...object, metadata: { ...objectOf(object["metadata"]), namespace } }
        : object;
    });
}

/** Changes an object. Returns the same object to keep it, and undefined to remove it. */
type ObjectChange = (object: JsonObject, ref: ObjectRef) => JsonObject | undefined;

/** Changes the objects of a manifest, also those in lists. Documents that stay the same keep their text. */
function mapObjects(manifest: string, change: ObjectChange): string {
  return splitDocuments(manifest)
    .map((text) => {
      const document = parseManifestDocument(text);
      if (!isJsonObject(document)) return text;
      const changed = changeDocument(document, change);
      if (changed === document) return text;
      return changed === undefined ? "\n" : `\n${toYamlSafeJson(changed)}\n`;
    })
    .join("---");
}

/** Changes an object, or the objects of a list. Returns the same document if nothing changes, and undefined if nothing is left. */
function changeDocument(document: JsonObject, change: ObjectChange): JsonObject | undefined {
  const items = getListItems(document);
  if (items === undefined) {
    const ref = parseObjectRef(document);
    return ref === undefined ? document : change(document, ref);
  }
  const changed = items
    .map((item) => (isJsonObject(item) ? changeDocument(item, change) : item))
    .filter((item) => item !== undefined);
  if (changed.length === items.length && changed.every((item, index) => item === items[index]))
    return document;
  return changed.length === 0 ? undefined : { ...document, items: changed };
}
