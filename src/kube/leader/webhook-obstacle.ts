/** Finds the webhook that prevents the operator from writing its Lease: webhooks of others can cover Leases and fail closed. */

import { objectOf, objectsIn, asString, type JsonObject } from "../../base/model/index.ts";
import { ApiError } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, pathOf } from "../resources.ts";

/** The API server names only the webhook: `failed calling webhook "x": …`, or `admission webhook "x" denied the request: …`. */
const WEBHOOK = /webhook "([^"]{1,253})"/;

/**
 * What to do about the webhook that refused a write or did not answer; undefined for any other error. Reads the webhook configurations to
 * name the one that contains the webhook. Never throws.
 */
export async function explainWebhookObstacle(
  client: KubeClient,
  error: unknown,
  timeoutMs: number,
): Promise<string | undefined> {
  const webhook = error instanceof ApiError ? WEBHOOK.exec(error.message)?.[1] : undefined;
  if (webhook === undefined) return undefined;
  for (const resource of [VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS]) {
    const list = await client
      .json<JsonObject>({ path: pathOf(resource, {}), timeoutMs })
      .catch((): JsonObject => ({}));
    const found = objectsIn(list["items"]).find(({ webhooks }) =>
      objectsIn(webhooks).some(({ name }) => name === webhook),
    );
    const name = asString(objectOf(found?.["metadata"])["name"]);
    if (name !== undefined)
      return `webhook ${webhook} of ${resource.kind} ${name} must not cover Leases of the operator: fix its rules or its namespaceSelector, or kubectl delete ${resource.kind.toLowerCase()} ${name}`;
  }
  return `find the configuration with this webhook: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml | grep -B20 "name: ${webhook}"`;
}
