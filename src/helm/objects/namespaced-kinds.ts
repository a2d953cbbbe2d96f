/** Finds out which objects of manifests are in namespaces. */

import { asString, type JsonObject } from "../../model/index.ts";
import { bodiesOf, documentsOf } from "../manifest/manifest.ts";
import type { CheckTools } from "../types.ts";

/** A test whether an object of these manifests is in a namespace. False for kinds that the server does not know. */
export async function namespacedKinds(
  discovery: CheckTools["discovery"],
  manifests: readonly string[],
): Promise<(object: JsonObject) => boolean> {
  const namespaced = new Map<string, boolean>();
  for (const object of bodiesOf(manifests.flatMap(documentsOf))) {
    const { apiVersion = "", kind = "" } = kindOf(object);
    const key = `${apiVersion} ${kind}`;
    if (namespaced.has(key)) continue;
    namespaced.set(key, (await discovery.resolve(kind, apiVersion))?.namespaced === true);
  }
  return (object) => {
    const { apiVersion = "", kind = "" } = kindOf(object);
    return namespaced.get(`${apiVersion} ${kind}`) === true;
  };
}

function kindOf({ apiVersion, kind }: JsonObject) {
  return { apiVersion: asString(apiVersion), kind: asString(kind) };
}
