/** Finds out whether the API server still serves a kind, by requests about its group alone, which an API that is down fails. */

import { objectOf, objectsIn, asString, type JsonObject } from "../../base/model/index.ts";
import { ignoreNotFound } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { apiGroupOf } from "../resources.ts";

interface KindInVersion {
  readonly kind: string;
  readonly apiVersion: string;
}

interface Request {
  readonly client: KubeClient;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Returns the version (`group/version`) of a group in which the API server serves a kind: the given one, else the first of the
 * group's other versions, preferred ones first. Undefined if the server answers that no version has the kind. Throws ApiError,
 * ConnectionError where it does not answer, for example because the server of an aggregated API is down.
 */
export async function findServedVersion(
  { kind, apiVersion }: KindInVersion,
  request: Request,
): Promise<string | undefined> {
  if (await servesKind({ kind, apiVersion }, request)) return apiVersion;
  const name = apiGroupOf(apiVersion);
  if (name === "") return undefined;
  const group = await read(`/apis/${encodeURIComponent(name)}`, request);
  const preferred = objectOf(group?.["preferredVersion"]);
  for (const { groupVersion } of [preferred, ...objectsIn(group?.["versions"])]) {
    const version = asString(groupVersion) ?? apiVersion;
    if (version !== apiVersion && (await servesKind({ kind, apiVersion: version }, request))) return version;
  }
  return undefined;
}

/** Whether a version of a group has a kind. */
async function servesKind({ kind, apiVersion }: KindInVersion, request: Request): Promise<boolean> {
  const prefix = apiVersion.includes("/") ? "/apis" : "/api";
  const segments = apiVersion.split("/").map(encodeURIComponent);
  const list = await read([prefix, ...segments].join("/"), request);
  return objectsIn(list?.["resources"]).some((resource) => resource["kind"] === kind);
}

/** Reads a discovery document; undefined if the server answers that there is none. */
function read(path: string, { client, signal }: Request): Promise<JsonObject | undefined> {
  return client.json<JsonObject>({ path, signal }).catch(ignoreNotFound);
}
