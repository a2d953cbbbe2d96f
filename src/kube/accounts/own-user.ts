/** As whom the operator acts at the API server. */

import type { KubeClient } from "../client/client.ts";

interface SelfSubjectReview {
  readonly status?: { readonly userInfo?: { readonly username?: string } };
}

/** Name of the user of our requests; undefined if the server does not return it. Throws ApiError, ConnectionError. */
export async function ownUserName(client: KubeClient, signal: AbortSignal): Promise<string | undefined> {
  const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
  const body = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const { status } = await client.json<SelfSubjectReview>({ method: "POST", path, body, signal });
  return status?.userInfo?.username;
}
