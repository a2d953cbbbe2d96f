/** Changes objects of a manifest; documents that stay the same keep their text. */

import { isJsonObject, objectOf, type JsonObject } from "../../model/index.ts";
import {
  expand,
  listItems,
  parseManifestDocument,
  refOf,
  resourceKey,
  SEPARATOR,
  type ObjectRef,
} from "./manifest.ts";

/** A manifest without some of its objects; the other documents are not changed at all. */
export function withoutObjects(manifest: string, objects: readonly ObjectRef[]): string {
  const unwanted = new Set(objects.map(resourceKey));
  return mapDocuments(manifest, (document) => {
    const all = expand(document).filter(isJsonObject);
    const wanted = all.filter((object) => refOf(object).every((ref) => !unwanted.has(resourceKey(ref))));
    if (wanted.length === all.length) return document;
    // Only a list is more than one object.
    return wanted.length === 0 ? undefined : { ...document, items: wanted };
  });
}

/** A manifest whose objects all name their namespace, which is `namespace` unless they name another or are cluster-wide. */
export function withNamespaces(
  manifest: string,
  namespace: string,
  isNamespaced: (object: JsonObject) => boolean,
): string {
  return mapDocuments(manifest, withNamespace);

  function withNamespace(document: JsonObject): JsonObject {
    const items = listItems(document);
    if (items !== undefined) {
      const changed = items.map((item) => (isJsonObject(item) ? withNamespace(item) : item));
      return changed.every((item, index) => item === items[index])
        ? document
        : { ...document, items: changed };
    }
    const metadata = objectOf(document["metadata"]);
    const isComplete = typeof metadata["namespace"] === "string" || refOf(document).length === 0;
    if (isComplete || !isNamespaced(document)) return document;
    return { ...document, metadata: { ...metadata, namespace } };
  }
}

/** Changes the documents of a manifest; undefined removes one. A document that stays the same keeps its text. */
function mapDocuments(manifest: string, change: (document: JsonObject) => JsonObject | undefined): string {
  return manifest
    .split(SEPARATOR)
    .map((text) => {
      const document = parseManifestDocument(text);
      if (!isJsonObject(document)) return text;
      const changed = change(document);
      if (changed === document) return text;
      return changed === undefined ? "\n" : `\n${JSON.stringify(changed)}\n`;
    })
    .join("---");
}
