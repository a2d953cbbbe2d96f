/** Requests the user name that the API server knows the operator by. */

import type { KubeClient } from "../client/client.ts";

interface SelfSubjectReview {
  readonly status?: { readonly userInfo?: { readonly username?: string } };
}

/** Requests the name of the user of the client's credentials; undefined if the server does not tell. Throws ApiError, ConnectionError. */
export async function requestOwnUserName(
  client: KubeClient,
  signal: AbortSignal,
): Promise<string | undefined> {
  const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
  const body = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const { status } = await client.json<SelfSubjectReview>({ method: "POST", path, body, signal });
  return status?.userInfo?.username;
}
