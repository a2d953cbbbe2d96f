/** Changes objects of a manifest; documents that stay the same keep their text. */

import { isJsonObject, objectOf, type JsonObject } from "../../model/index.ts";
import {
  expandLists,
  getListItems,
  parseManifestDocument,
  parseObjectRef,
  resourceKey,
  DOCUMENT_SEPARATOR,
  type ObjectRef,
} from "./manifest.ts";

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
 * Adds `namespace` to the objects of a manifest that name none, so that the objects stay where they are when their release
 * moves. `isNamespaced` excludes cluster-wide objects, because the manifest does not tell the scope of a kind.
 */
export function withNamespaces(
  manifest: string,
  namespace: string,
  isNamespaced: (object: JsonObject) => boolean,
): string {
  return mapDocuments(manifest, withNamespace);

  function withNamespace(document: JsonObject): JsonObject {
    const items = getListItems(document);
    if (items !== undefined) {
      const changed = items.map((item) => (isJsonObject(item) ? withNamespace(item) : item));
      return changed.every((item, index) => item === items[index])
        ? document
        : { ...document, items: changed };
    }
    const metadata = objectOf(document["metadata"]);
    const namesNamespace = typeof metadata["namespace"] === "string";
    const isObject = parseObjectRef(document) !== undefined;
    if (namesNamespace || !isObject || !isNamespaced(document)) return document;
    return { ...document, metadata: { ...metadata, namespace } };
  }
}

/** Changes the documents of a manifest; undefined removes one. A document that stays the same keeps its text. */
function mapDocuments(manifest: string, change: (document: JsonObject) => JsonObject | undefined): string {
  return manifest
    .split(DOCUMENT_SEPARATOR)
    .map((text) => {
      const document = parseManifestDocument(text);
      if (!isJsonObject(document)) return text;
      const changed = change(document);
      if (changed === document) return text;
      return changed === undefined ? "\n" : `\n${JSON.stringify(changed)}\n`;
    })
    .join("---");
}
