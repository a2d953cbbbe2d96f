import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { text } from "node:stream/consumers";
import { KubeConfig } from "@kubernetes/client-node";

/** What of an API server's discovery a path is made from. */
interface Resource {
  /** `/api/v1`, `/apis/apps/v1`. */
  readonly root: string;
  readonly plural: string;
  readonly namespaced: boolean;
}

interface Discovered {
  readonly metadata: { readonly name?: string };
  readonly versions: readonly {
    readonly version: string;
    readonly resources: readonly {
      readonly resource: string;
      readonly scope: string;
      readonly singularResource?: string;
      readonly shortNames?: readonly string[];
      readonly responseKind?: { readonly kind: string };
    }[];
  }[];
}

export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

interface Written {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name?: string;
    readonly namespace?: string;
    readonly annotations?: Record<string, string>;
  };
}

const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/** In place of a body: no such resource, no longer, or not yet. */
export const NOT_SERVED = Symbol("not served");

const apis = new Map<string, Api>();
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/** There is no answer. */
export class Unreachable extends Error {}

/** An API server by its kubeconfig, over one connection: a process of kubectl for each request costs much more. */
export class Api {
  readonly #kubeconfig: string;
  #connection:
    | Promise<{ readonly server: string; readonly agent: Agent; readonly headers: object }>
    | undefined;
  #resources: Promise<ReadonlyMap<string, Resource>> | undefined;

  private constructor(kubeconfig: string) {
    this.#kubeconfig = kubeconfig;
  }

  /** One connection, and one look at what is served, for all who ask by the same file. */
  static of(kubeconfig: string): Api {
    const api = apis.get(kubeconfig) ?? new Api(kubeconfig);
    apis.set(kubeconfig, api);
    return api;
  }

  /** The path of all objects of a kind, by any name that kubectl takes, or of one;. */
  async path(kind: string, namespace: string | undefined, name?: string): Promise<string | undefined> {
    const resource = await this.#resource(kind);
    return resource && pathOf(resource, namespace, name);
  }

  /** Creates an object as `kubectl apply` does; false where it is there already, or only kubectl knows how. */
  async applyFirst(object: Written): Promise<boolean> {
    const group = object.apiVersion.includes("/")
      ? `/apis/${object.apiVersion}`
      : `/api/${object.apiVersion}`;
    const resource = await this.#resource(`${object.kind.toLowerCase()} ${group}`);
    if (resource === undefined) return false;
    const annotations = { ...object.metadata.annotations, [LAST_APPLIED]: `${JSON.stringify(object)}\n` };
    const made = { ...object, metadata: { ...object.metadata, annotations } };
    const path = pathOf(resource, object.metadata.namespace ?? "default");
    const query = "fieldManager=kubectl-client-side-apply&fieldValidation=Strict";
    const { status, body } = await this.request("POST", `${path}?${query}`, made);
    if (status === 409 || body === NOT_SERVED) return false;
    if (status >= 300) throw refusal(`kubectl apply ${object.kind} ${object.metadata.name}`, body);
    return true;
  }

  async request(method: string, path: string, body?: object): Promise<Answer> {
    const response = await this.#send(method, path, { body });
    const content = await text(response);
    const status = response.statusCode ?? 0;
    // 429: the storage of a CRD that was changed begins anew.
    if (status === 429 || (status === 404 && !content.startsWith("{"))) {
      this.#resources = undefined;
      return { status, body: NOT_SERVED };
    }
    return { status, body: content === "" ? undefined : JSON.parse(content) };
  }

  async #send(
    method: string,
    path: string,
    given: { readonly body?: object | undefined; readonly accept?: string },
  ): Promise<IncomingMessage> {
    this.#connection ??= connect(this.#kubeconfig);
    const { server, agent, headers } = await this.#connection;
    const { body, accept = "application/json" } = given;
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const content = body === undefined ? "" : JSON.stringify(body);
    const length = { "content-type": type, "content-length": Buffer.byteLength(content) };
    const sent = { ...headers, accept, ...length, "user-agent": "kubectl" };
    return new Promise((done, fail) => {
      const call = request(`${server}${path}`, { method, agent, headers: sent }, done);
      call.on("error", (cause: Error) => {
        // The server closes a connection that was idle, or ends: that says nothing about this request.
        if (call.reusedSocket) return done(this.#send(method, path, given));
        // The kubeconfig may have changed.
        this.#connection = this.#resources = undefined;
        return fail(new Unreachable(`${method} ${path}: ${cause.message}`, { cause }));
      });
      call.end(content);
    });
  }

  /** By any name that kubectl takes, or `kind /apis/group/version`; what is new is looked for again. */
  async #resource(name: string): Promise<Resource | undefined> {
    const known = await (this.#resources ??= this.#discover());
    if (known.has(name)) return known.get(name);
    this.#resources = this.#discover();
    return (await this.#resources).get(name);
  }

  async #discover(): Promise<ReadonlyMap<string, Resource>> {
    const found = new Map<string, Resource>();
    for (const path of ["/api", "/apis"]) {
      const response = await this.#send("GET", path, { accept: AGGREGATED });
      const { items } = JSON.parse(await text(response)) as { readonly items: readonly Discovered[] };
      for (const group of items) enter(found, group);
    }
    return found;
  }
}

/** The preferred version of a group comes first, and so does the core group: who comes first has the name. */
function enter(found: Map<string, Resource>, { metadata, versions }: Discovered): void {
  for (const { version, resources } of versions) {
    const root = metadata.name === undefined ? `/api/${version}` : `/apis/${metadata.name}/${version}`;
    for (const { resource, scope, singularResource, shortNames = [], responseKind } of resources) {
      const kind = responseKind?.kind.toLowerCase() ?? resource;
      const full = `${resource}.${metadata.name ?? ""}`;
      const names = [resource, singularResource ?? kind, kind, ...shortNames, full, `${kind} ${root}`];
      for (const name of names)
        if (!found.has(name)) found.set(name, { root, plural: resource, namespaced: scope === "Namespaced" });
    }
  }
}

function pathOf(
  { root, plural, namespaced }: Resource,
  namespace: string | undefined,
  name?: string,
): string {
  const within = namespaced && namespace !== undefined ? `/namespaces/${namespace}` : "";
  return `${root}${within}/${plural}${name === undefined ? "" : `/${name}`}`;
}

export function refusal(what: string, body: unknown): Error {
  const { reason, message } = body as { readonly reason?: string; readonly message?: string };
  return new Error(`${what}: Error from server (${reason}): ${message}`);
}

async function connect(file: string): Promise<{ server: string; agent: Agent; headers: object }> {
  const config = new KubeConfig();
  config.loadFromFile(file);
  const options: { agent?: unknown; headers?: object } = {};
  await config.applyToHTTPSOptions(options as never);
  const { options: tls } = options.agent as Agent;
  return {
    server: config.getCurrentCluster()?.server ?? "",
    agent: new Agent({ ...tls, keepAlive: true }),
    headers: options.headers ?? {},
  };
}
