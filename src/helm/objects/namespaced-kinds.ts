/** Finds out which objects of manifests are in namespaces. */

import { asString, type JsonObject } from "../../model/index.ts";
import { listManifestObjects, parseDocuments } from "../manifest/manifest.ts";
import type { CheckTools } from "../types.ts";

/**
 * Looks up the kinds of all objects in manifests, and returns a test whether such an object is in a namespace: a manifest does
 * not tell the scope of a kind. The test returns false for kinds that the server does not know.
 */
export async function loadNamespacedTest(
  discovery: CheckTools["discovery"],
  manifests: readonly string[],
): Promise<(object: JsonObject) => boolean> {
  const namespaced = new Map<string, boolean>();
  for (const object of listManifestObjects(manifests.flatMap(parseDocuments))) {
    const key = versionAndKind(object);
    if (namespaced.has(key)) continue;
    const { kind, apiVersion } = object;
    const resource = await discovery.resolve(asString(kind) ?? "", asString(apiVersion) ?? "");
    namespaced.set(key, resource?.namespaced === true);
  }
  return (object) => namespaced.get(versionAndKind(object)) === true;
}

function versionAndKind({ apiVersion, kind }: JsonObject): string {
  return `${asString(apiVersion) ?? ""} ${asString(kind) ?? ""}`;
}
