/** Reads the version of the API server and checks at the start that the server is reachable. */

import { oneLine } from "../../base/index.ts";
import { ProblemError, asString, type JsonObject } from "../../base/model/index.ts";
import { ApiError, ConnectionError, isTlsFailure } from "../api-errors.ts";
import type { KubeClient } from "./client.ts";

/** Requests the server's `gitVersion`, e.g. `v1.31.2-gke.100`. Throws ApiError, ConnectionError. */
export async function requestServerVersion(client: KubeClient, signal?: AbortSignal): Promise<string> {
  const { gitVersion } = await client.json<JsonObject>({ path: "/version", signal });
  return asString(gitVersion) ?? "";
}

const CHECK_TIMEOUT_MS = 10_000;

/**
 * Requests the server's version to check the connection at the start. Throws one ProblemError that names the file of the credentials, the
 * server's address and the remedy. Throws other errors unchanged.
 */
export async function checkConnection(client: KubeClient, signal?: AbortSignal): Promise<void> {
  try {
    await client.json({ path: "/version", timeoutMs: CHECK_TIMEOUT_MS, signal });
  } catch (error) {
    throw explainConnectionError(error, client.credentialsInfo);
  }
}

/** Turns a connection, TLS or authentication error into a ProblemError with a remedy; returns other errors unchanged. */
export function explainConnectionError(
  error: unknown,
  { file, server, proxy }: KubeClient["credentialsInfo"],
): unknown {
  const key = `server ${server}`;
  if (error instanceof ApiError && error.status === 401) {
    const remedy = "check token or certificate, and whether they have expired";
    return new ProblemError({ file, key, message: "the server does not accept the credentials", remedy });
  }
  if (error instanceof ApiError) {
    return new ProblemError({ file, key, message: `the server refuses: ${oneLine(error)}` });
  }
  if (!(error instanceof ConnectionError)) return error;
  const cause = oneLine(error.cause ?? error);
  const way = proxy === undefined ? "" : ` through the proxy ${proxy} (proxy-url)`;
  const message = `cannot be reached${way}: ${cause}`;
  return new ProblemError({ file, key, message, remedy: suggestRemedy(error, proxy) });
}

function suggestRemedy(error: ConnectionError, proxy: string | undefined): string {
  const { code } = error;
  if (isTlsFailure(error)) return "check certificate-authority and tls-server-name in the kubeconfig";
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "check the server's name and the name service";
  if (proxy !== undefined)
    return "check that the proxy runs and may connect to the API server, or remove proxy-url from the kubeconfig";
  return "check that the API server runs and that address and port are right; a proxy on the way needs proxy-url in the kubeconfig, because HTTPS_PROXY does not apply to the API server";
}
