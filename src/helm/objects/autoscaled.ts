/** Finds out whether an autoscaler sets the replicas of an object. */

import { isForbidden, isNotFound, pathOf, type KubeClient } from "../../kube/index.ts";
import { objectOf, objectsIn, asString, type JsonObject } from "../../model/index.ts";

const AUTOSCALERS = {
  group: "autoscaling",
  version: "v2",
  plural: "horizontalpodautoscalers",
  namespaced: true,
} as const;

/**
 * Whether a HorizontalPodAutoscaler targets an object, so that its number of replicas is no drift. True also if the operator
 * may not list autoscalers: then the replicas are left alone. One request. Throws ApiError, ConnectionError.
 */
export async function isAutoscaled(
  client: KubeClient,
  object: JsonObject,
  call: { readonly signal: AbortSignal; readonly timeoutMs?: number },
): Promise<boolean> {
  const { name, namespace } = objectOf(object["metadata"]);
  const path = pathOf(AUTOSCALERS, { namespace: asString(namespace) });
  try {
    const list = await client.json<JsonObject>({ ...call, path });
    return objectsIn(list["items"]).some((each) => {
      const target = objectOf(objectOf(each["spec"])["scaleTargetRef"]);
      const isSameKind = target["kind"] === object["kind"] && apiGroupOf(target) === apiGroupOf(object);
      return isSameKind && target["name"] === name;
    });
  } catch (error) {
    if (isNotFound(error)) return false;
    if (isForbidden(error)) return true;
    throw error;
  }
}

/** The API group of an object; "" for the core group. */
function apiGroupOf({ apiVersion }: JsonObject): string {
  const [group = "", version] = (asString(apiVersion) ?? "").split("/");
  return version === undefined ? "" : group;
}
