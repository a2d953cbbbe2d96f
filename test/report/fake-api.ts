import type { JsonObject } from "../../src/base/model/index.ts";
import { ApiError, type ApiRequest, ConnectionError, type KubeClient } from "../../src/kube/index.ts";
import type { AddonObject, IAddonModule, IAddonOperator } from "../../src/report/index.ts";
import { StatusOracle } from "../support/kstatus.ts";
import { withPatch } from "../support/object-server.ts";

/** One call that changed something. */
export interface Write {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
}

/**
 * As much of an API server as the status writer meets: generations, resourceVersions, the status subresource,
 * the CRDs' default. Every status goes through the kstatus oracle. `fail` may answer a call with an error.
 */
export class FakeApi {
  readonly objects = new Map<string, AddonObject>();
  readonly writes: Write[] = [];
  readonly oracle = new StatusOracle();
  /** Called with every change, as a watch would be. */
  onChange: (event: "applied" | "deleted", object: AddonObject) => void = () => {};
  fail: (request: ApiRequest) => Error | undefined = () => undefined;
  /** A status field that the server does not know and drops. */
  drops: string | undefined;
  /** Set while calls must wait. */
  gate: Promise<void> | undefined;
  /** Set while answers are under way: what was asked for is done already. */
  late: Promise<void> | undefined;
  #version = 100;
  #uid = 0;

  get client(): KubeClient {
    return { json: async (request: ApiRequest) => this.#answer(request) } as unknown as KubeClient;
  }

  module(name: string): IAddonModule | undefined {
    return this.objects.get(`addonmodules/${name}`) as IAddonModule | undefined;
  }

  operator(name = "addon-operator"): IAddonOperator | undefined {
    return this.objects.get(`addonoperators/${name}`) as IAddonOperator | undefined;
  }

  /** Someone else's change: `change` is merged into the object; a changed spec moves the generation. */
  edit(key: string, change: JsonObject): AddonObject {
    const old = this.objects.get(key);
    if (old === undefined) throw new Error(`no ${key}`);
    return this.#store(key, merge(structuredClone(old) as unknown as JsonObject, change));
  }

  /** Its etcd is restored to a time when there were no modules: versions begin again, and no watch has noticed it. */
  restoreWithoutModules(): void {
    for (const key of this.objects.keys()) if (key.startsWith("addonmodules/")) this.objects.delete(key);
    this.#version = 50;
  }

  remove(key: string): void {
    const old = this.objects.get(key);
    if (old === undefined) throw notFound(key);
    this.objects.delete(key);
    const metadata = { ...old.metadata, resourceVersion: String(++this.#version) };
    this.onChange("deleted", { ...old, metadata } as AddonObject);
  }

  async #answer(request: ApiRequest): Promise<unknown> {
    await this.gate;
    const failure = this.fail(request);
    if (failure !== undefined) throw failure;
    request.signal?.throwIfAborted();
    const [, , , , , , plural = "", name, subresource] = request.path.split("/");
    const method = request.method ?? "GET";
    const body = structuredClone(request.body) as JsonObject;
    if (method !== "GET") this.writes.push({ method, path: request.path, body });
    const answer = structuredClone(this.#call({ method, plural, name, subresource, body }));
    await this.late;
    return answer;
  }

  #call(call: {
    method: string;
    plural: string;
    name: string | undefined;
    subresource: string | undefined;
    body: JsonObject;
  }): unknown {
    const { method, plural, name, subresource, body } = call;
    if (method === "GET" && name === undefined) {
      return {
        items: [...this.objects].filter(([key]) => key.startsWith(`${plural}/`)).map(([, object]) => object),
      };
    }
    if (method === "POST") return this.#create(plural, body);
    const key = `${plural}/${name}`;
    const old = this.objects.get(key);
    if (old === undefined) throw notFound(key);
    if (method === "GET") return old;
    if (method === "DELETE") return this.remove(key);
    const before = structuredClone(old) as unknown as JsonObject;
    if (subresource !== "status") return this.#store(key, merge(before, body));
    const next = withPatch(before, body);
    const { resourceVersion } = next["metadata"] as JsonObject;
    if (resourceVersion !== old.metadata.resourceVersion) throw conflict(key);
    if (this.drops !== undefined) delete (next["status"] as JsonObject)[this.drops];
    return this.#store(key, next);
  }

  #create(plural: string, body: JsonObject): AddonObject {
    const metadata = body["metadata"] as JsonObject & { name: string };
    const key = `${plural}/${metadata.name}`;
    if (this.objects.has(key)) {
      throw new ApiError({
        status: 409,
        reason: "AlreadyExists",
        message: "exists",
        details: { name: metadata.name },
      });
    }
    const status = { observedGeneration: -1 };
    return this.#store(key, { ...body, metadata: { ...metadata, uid: `uid-${++this.#uid}` }, status });
  }

  #store(key: string, next: JsonObject): AddonObject {
    const old = this.objects.get(key);
    const moved = old !== undefined && JSON.stringify(old.spec) !== JSON.stringify(next["spec"]);
    const generation = old === undefined ? 1 : (old.metadata.generation ?? 1) + (moved ? 1 : 0);
    const metadata = {
      ...(next["metadata"] as JsonObject),
      generation,
      resourceVersion: String(++this.#version),
    };
    const object = { ...next, metadata } as unknown as AddonObject;
    this.objects.set(key, object);
    this.oracle.record(object);
    this.onChange("applied", structuredClone(object));
    return object;
  }
}

/** An answer that a kind is not there at all. */
export function missingKind(): ApiError {
  return new ApiError({ status: 404, reason: "404", message: "404 page not found" });
}

/** An answer of a server in issues. */
export function unavailable(): ApiError {
  return new ApiError({ status: 503, reason: "ServiceUnavailable", message: "try later" });
}

/** No answer. */
export function refused(): ConnectionError {
  return new ConnectionError("ECONNREFUSED", "connect ECONNREFUSED");
}

function notFound(key: string): ApiError {
  return new ApiError({
    status: 404,
    reason: "NotFound",
    message: `${key} not found`,
    details: { name: key },
  });
}

function conflict(key: string): ApiError {
  return new ApiError({ status: 409, reason: "Conflict", message: `${key} changed`, details: { name: key } });
}

function merge(target: JsonObject, change: JsonObject): JsonObject {
  for (const [key, value] of Object.entries(change)) {
    const old = target[key];
    if (value === null) delete target[key];
    else if (isMap(value) && isMap(old)) merge(old, value);
    else target[key] = value;
  }
  return target;
}

function isMap(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
