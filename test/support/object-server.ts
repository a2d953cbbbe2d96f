import jsonPatch from "fast-json-patch";

import { ApiError } from "../../src/kube/index.ts";
import type { ApiRequest } from "../../src/kube/index.ts";
import { canonicalJson } from "../../src/base/index.ts";
import { isJsonObject } from "../../src/base/model/index.ts";
import type { JsonObject } from "../../src/base/model/index.ts";

/** An object as the server has it. */
export interface Stored extends JsonObject {
  readonly metadata: JsonObject & {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
  };
}

/** One change, as watches tell it. */
export interface Change {
  readonly version: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly path: string;
  readonly object: Stored;
}

/** What a list or watch is of. */
export interface Selection {
  readonly collection: string;
  readonly name: string | undefined;
  readonly labels: ReadonlyMap<string, string>;
}

/** Where a request goes: a collection, an object of it, or a part of that. */
interface Place {
  readonly collection: string;
  readonly path: string;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

const PLACE = /^((?:\/api\/v1|\/apis\/[^/]+\/[^/]+)\/namespaces\/[^/]+\/[^/]+)(?:\/([^/]+))?(?:\/(.+))?$/;
const JSON_PATCH = "application/json-patch+json";

/**
 * What an API server does with requests, one after the other: versions, uids, generations, the status subresource,
 * finalizers, conditional writes. A write that changes nothing is no change.
 */
export class ObjectServer {
  readonly changes: Change[] = [];
  /** Sees what a request writes, before it is done. */
  onWrite: (request: ApiRequest, old: Stored | undefined) => void = () => {};
  /** What a new object is given: defaults of its CRD. */
  defaults: JsonObject = {};
  readonly #objects = new Map<string, Stored>();
  #version = 100;

  get version(): number {
    return this.#version;
  }

  get(path: string): Stored | undefined {
    return this.#objects.get(path);
  }

  /** The objects of a collection. */
  all(collection: string): Stored[] {
    return this.select({ collection, name: undefined, labels: new Map() });
  }

  /** The objects as they were at an earlier version, by path. */
  at(version: number): Map<string, Stored> {
    const objects = new Map<string, Stored>();
    for (const { version: changed, type, path, object } of this.changes) {
      if (changed > version) break;
      if (type === "DELETED") objects.delete(path);
      else objects.set(path, object);
    }
    return objects;
  }

  /** The objects that a list of `selection` has, by default now. */
  select(selection: Selection, objects: ReadonlyMap<string, Stored> = this.#objects): Stored[] {
    return [...objects]
      .filter(([path, object]) => isSelected(selection, path, object))
      .map(([, object]) => object);
  }

  /** Writes over what is there, metadata merged; a part that is undefined goes. */
  put(path: string, content: JsonObject): Stored {
    const old = this.#objects.get(path);
    const name = path.slice(path.lastIndexOf("/") + 1);
    const namespace = path.split("/namespaces/")[1]?.split("/")[0];
    const metadata = {
      ...old?.metadata,
      ...(content["metadata"] as JsonObject | undefined),
      name,
      namespace,
    };
    return this.#store(path, { ...old, ...content, metadata });
  }

  /** Deletes an object, or marks it where finalizers hold it. */
  remove(path: string): void {
    const old = this.#objects.get(path);
    if (old === undefined) return;
    if (hasFinalizers(old)) {
      const deletionTimestamp = old.metadata["deletionTimestamp"] ?? "2026-01-01T00:00:00Z";
      this.#store(path, { ...old, metadata: { ...old.metadata, deletionTimestamp } });
    } else this.#drop(path, old);
  }

  /** Answers all requests but lists and watches. Throws ApiError. */
  answer(request: ApiRequest): JsonObject {
    const { method = "GET", body } = request;
    const place = placeOf(request.path);
    const content = structuredClone(body) as JsonObject | undefined;
    if (method === "POST") return this.#create(request, place, content as Stored);
    if (method === "GET") return this.read(request, this.#objects);
    const old = this.#objects.get(place.path);
    if (old === undefined) throw refusal(404, "NotFound", place.name);
    if (method === "DELETE") return this.#delete(request, old, content);
    const next = this.#patched(request, old, content);
    this.onWrite(request, old);
    return this.#store(place.path, place.subresource === "status" ? withStatus(old, next) : next);
  }

  /** Answers a read of one object. Throws ApiError. */
  read({ path }: ApiRequest, objects: ReadonlyMap<string, Stored>): JsonObject {
    const place = placeOf(path);
    const object = objects.get(place.path);
    if (object === undefined) throw refusal(404, "NotFound", place.name);
    return object;
  }

  #create(request: ApiRequest, { collection }: Place, content: Stored): JsonObject {
    const { name } = content.metadata;
    const at = `${collection}/${name}`;
    if (this.#objects.has(at)) throw refusal(409, "AlreadyExists", name);
    this.onWrite(request, undefined);
    return this.#store(at, { ...content, ...this.defaults });
  }

  #delete(request: ApiRequest, old: Stored, options: JsonObject = {}): JsonObject {
    const { path, name } = placeOf(request.path);
    const { uid, resourceVersion } = (options["preconditions"] ?? {}) as Record<string, string | undefined>;
    if ((uid ?? old.metadata.uid) !== old.metadata.uid) throw refusal(409, "Conflict", name);
    if ((resourceVersion ?? old.metadata.resourceVersion) !== old.metadata.resourceVersion)
      throw refusal(409, "Conflict", name);
    this.onWrite(request, old);
    this.remove(path);
    return this.#objects.get(path) ?? old;
  }

  #patched(request: ApiRequest, old: Stored, content: unknown): JsonObject {
    const { name, subresource } = placeOf(request.path);
    const next = this.#applied(request, old, content);
    const wanted = (next as Partial<Stored>).metadata?.resourceVersion as string | undefined;
    if (wanted !== undefined && wanted !== old.metadata.resourceVersion) throw refusal(409, "Conflict", name);
    if (request.contentType === JSON_PATCH) return next;
    // Where there is a status subresource, nothing else writes it.
    return subresource === undefined && this.defaults["status"] !== undefined ? withStatus(next, old) : next;
  }

  #applied({ contentType, method }: ApiRequest, old: Stored, content: unknown): JsonObject {
    if (contentType === JSON_PATCH) return withPatch(old, content);
    return (method === "PUT" ? content : merged(old, content)) as JsonObject;
  }

  #store(path: string, content: JsonObject): Stored {
    const old = this.#objects.get(path);
    const uid = old?.metadata.uid ?? `u${this.#version + 1}`;
    const generation = generationOf(old, content);
    const kept = { uid, ...(generation === undefined ? {} : { generation }) };
    const given = content["metadata"] as Stored["metadata"];
    const same = { ...given, ...kept, resourceVersion: old?.metadata.resourceVersion ?? "" };
    if (old !== undefined && isEqual(old, { ...content, metadata: same })) return old;
    const version = ++this.#version;
    const object = { ...content, metadata: { ...given, ...kept, resourceVersion: String(version) } };
    if (given["deletionTimestamp"] !== undefined && !hasFinalizers(object)) return this.#drop(path, object);
    this.#objects.set(path, object);
    this.changes.push({ version, type: old === undefined ? "ADDED" : "MODIFIED", path, object });
    return object;
  }

  #drop(path: string, old: Stored): Stored {
    this.#objects.delete(path);
    const version = ++this.#version;
    const object = { ...old, metadata: { ...old.metadata, resourceVersion: String(version) } };
    this.changes.push({ version, type: "DELETED", path, object });
    return object;
  }
}

/** What a request selects. */
export function selectionOf({ path, query = {} }: ApiRequest): Selection {
  const name = /^metadata\.name=(.+)$/.exec(String(query["fieldSelector"] ?? ""))?.[1];
  const terms = String(query["labelSelector"] ?? "").split(",");
  const labels = new Map(
    terms.filter((term) => term !== "").map((term) => term.split("=") as [string, string]),
  );
  return { collection: path, name, labels };
}

/** Whether a list or watch has an object. */
export function isSelected(
  { collection, name, labels }: Selection,
  path: string,
  { metadata }: Stored,
): boolean {
  const found = (metadata["labels"] ?? {}) as Record<string, string>;
  return (
    path.startsWith(`${collection}/`) &&
    (name === undefined || metadata.name === name) &&
    [...labels].every(([key, value]) => found[key] === value)
  );
}

/** Whether a request asks for a list. */
export function isList({ method = "GET", path }: ApiRequest): boolean {
  return method === "GET" && placeOf(path).name === undefined;
}

function placeOf(path: string): Place {
  const [, collection = path, name, subresource] = PLACE.exec(path) ?? [];
  return { collection, name, subresource, path: name === undefined ? collection : `${collection}/${name}` };
}

function refusal(status: number, reason: string, name: string | undefined): ApiError {
  const details = name === undefined ? undefined : { name };
  return new ApiError({ status, reason, message: `${name ?? "it"}: ${reason}`, details });
}

/** Objects with a spec have a generation: how often that has moved. */
function generationOf(old: Stored | undefined, { spec }: JsonObject): number | undefined {
  if (spec === undefined) return undefined;
  if (old === undefined) return 1;
  const before = Number(old.metadata["generation"] ?? 1);
  return isEqual(old["spec"], spec) ? before : before + 1;
}

function withStatus(object: JsonObject, { status }: JsonObject): JsonObject {
  const { status: _, ...rest } = object;
  return status === undefined ? rest : { ...rest, status };
}

/** The object after a JSON patch; 422 where a step of it does not fit. */
export function withPatch(old: JsonObject, steps: unknown): JsonObject {
  try {
    const patch = steps as Parameters<typeof jsonPatch.applyPatch>[1];
    return jsonPatch.applyPatch(structuredClone(old), [...patch], true).newDocument;
  } catch {
    throw refusal(422, "Invalid", undefined);
  }
}

function hasFinalizers({ metadata }: Stored): boolean {
  return ((metadata["finalizers"] ?? []) as unknown[]).length > 0;
}

function isEqual(a: unknown, b: unknown): boolean {
  return canonicalJson(a as JsonObject) === canonicalJson(b as JsonObject);
}

function merged(old: unknown, change: unknown): unknown {
  if (!isJsonObject(change) || !isJsonObject(old)) return change;
  const result: Record<string, unknown> = { ...old };
  for (const [key, value] of Object.entries(change)) {
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
}
