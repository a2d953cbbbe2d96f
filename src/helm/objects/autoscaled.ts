/** Finds out whether an autoscaler sets the replicas of an object. */

import { apiGroupOf, isForbidden, isNotFound, pathOf, type KubeClient } from "../../kube/index.ts";
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
  const group = apiGroupOf(asString(object["apiVersion"]) ?? "");
  const path = pathOf(AUTOSCALERS, { namespace: asString(namespace) });
  try {
    const list = await client.json<JsonObject>({ ...call, path });
    return objectsIn(list["items"]).some((each) => {
      const target = objectOf(objectOf(each["spec"])["scaleTargetRef"]);
      // Without the version, because an autoscaler may name another one than the chart.
      const isSameKind =
        target["kind"] === object["kind"] && apiGroupOf(asString(target["apiVersion"]) ?? "") === group;
      return isSameKind && target["name"] === name;
    });
  } catch (error) {
    if (isNotFound(error)) return false;
    if (isForbidden(error)) return true;
    throw error;
  }
}
