/** A request to the API server. */

import type { Access } from "./credentials.ts";

/** HTTP methods the API server knows. */
export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** One request. `path` starts with `/api` or `/apis`; `query` values that are undefined are left out. */
export interface ApiRequest {
  readonly method?: Method;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as JSON, or as it is when it is a string. */
  readonly body?: unknown;
  readonly contentType?: string | undefined;
  readonly accept?: string;
  readonly signal?: AbortSignal | undefined;
  /** Time for the whole call, retries included; for `stream` until the headers are there. Default 30 s. */
  readonly timeoutMs?: number | undefined;
}

/** Whether a request may change what the server stores; an access review is a POST and changes nothing. */
export function isWrite(method: string, path: string): boolean {
  return method !== "GET" && !path.includes("/apis/authorization.k8s.io/");
}

/** A request for messages: `GET https://host/path`, without its query. */
export function nameOf(request: ApiRequest, server: string): string {
  return `${request.method ?? "GET"} ${server}${request.path}`;
}

/** The query with its question mark, or nothing. */
export function queryOf(request: ApiRequest): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (value !== undefined) query.set(name, String(value));
  }
  return query.size === 0 ? "" : `?${query.toString()}`;
}

/** All headers but the host. */
export function headersOf(request: ApiRequest, access: Access, userAgent: string): Record<string, string> {
  const headers: Record<string, string> = {
    accept: request.accept ?? "application/json",
    // Otherwise the server would spend time on compressing lists for a reader close by.
    "accept-encoding": "identity",
    "user-agent": userAgent,
    ...access.headers,
  };
  if (request.body !== undefined) headers["content-type"] = request.contentType ?? "application/json";
  return headers;
}

/** The body as it is sent. */
export function bodyOf(request: ApiRequest): string | null {
  if (request.body === undefined) return null;
  return typeof request.body === "string" ? request.body : JSON.stringify(request.body);
}

/** The `Accept` header: with `metadataOnly` the server leaves out the rest, where it can. */
export function acceptOf(
  { metadataOnly }: { readonly metadataOnly?: boolean | undefined },
  suffix: "List" | "",
): string {
  if (metadataOnly !== true) return "application/json";
  return `application/json;as=PartialObjectMetadata${suffix};g=meta.k8s.io;v=v1,application/json`;
}
