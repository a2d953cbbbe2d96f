/**
 * Limits of releases. Everybody who may write Secrets in the namespace of a release can write a record, so the time that the operator
 * needs for one must be short: it works for all modules.
 */

import { WorkSlices } from "../../base/index.ts";
import type { Json } from "../../base/model/index.ts";
import { kindKey, parseManifestDocument, splitDocuments, type ObjectRef } from "../manifest/manifest.ts";

/** Most characters of all manifests of a record. Helm compresses a record to at most 1 MiB. */
const MAX_MANIFEST_CHARS = 16 * 1024 * 1024;
/** Most characters of one document, which is parsed at once. The API server accepts requests up to 3 MiB. */
const MAX_DOCUMENT_CHARS = 4 * 1024 * 1024;
/** Most documents of the manifests, and most objects in them. */
const MAX_OBJECTS = 5000;
/** Most kinds of objects, counted in each namespace: each needs a watch. */
const MAX_KINDS = 300;

/** Throws SyntaxError for manifests that are too large. */
export function assertManifestSize(manifests: readonly string[]): void {
  const chars = manifests.reduce((sum, { length }) => sum + length, 0);
  if (chars > MAX_MANIFEST_CHARS)
    throw new SyntaxError(`it has more than ${MAX_MANIFEST_CHARS / 1024 / 1024} MiB of manifests`);
}

/** Parses manifests as `parseDocuments`, but lets the event loop have turns. Throws SyntaxError for too many or too large documents. */
export async function parseBoundedDocuments(manifests: readonly string[]): Promise<Json[]> {
  const texts = manifests.flatMap(splitDocuments);
  if (texts.length > 2 * MAX_OBJECTS) throw new SyntaxError(`it has more than ${2 * MAX_OBJECTS} documents`);
  const slices = new WorkSlices();
  const documents: Json[] = [];
  for (const text of texts) {
    if (text.length > MAX_DOCUMENT_CHARS)
      throw new SyntaxError(`it has a document of more than ${MAX_DOCUMENT_CHARS / 1024 / 1024} MiB`);
    await slices.count(text.length);
    const document = parseManifestDocument(text);
    if (document !== null) documents.push(document);
  }
  return documents;
}

/** Throws SyntaxError for more objects than the operator can watch. `source`: what contains them. */
export function assertWatchable(
  objects: readonly ObjectRef[],
  source: "it has" | "a rendered chart with",
): void {
  if (objects.length > MAX_OBJECTS) throw new SyntaxError(`${source} more than ${MAX_OBJECTS} objects`);
  const kinds = new Set(objects.map((object) => `${object.namespace ?? ""} ${kindKey(object)}`));
  if (kinds.size > MAX_KINDS)
    throw new SyntaxError(`${source} more than ${MAX_KINDS} kinds of objects, counted in each namespace`);
}
