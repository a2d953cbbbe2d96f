/** Asks the API server for its version. */

import { textOf, type JsonObject } from "../../model/index.ts";
import type { KubeClient } from "../client/client.ts";

/** As the server says it, e.g. `v1.31.2-gke.100`. Throws ApiError, ConnectionError. */
export async function serverVersion(client: KubeClient, signal?: AbortSignal): Promise<string> {
  const { gitVersion } = await client.json<JsonObject>({ path: "/version", signal });
  return textOf(gitVersion) ?? "";
}
