import { describe, expect, it } from "vitest";

import { ApiError } from "../../../src/kube/index.ts";
import type { ApiRequest, KubeClient, WatchHub } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import type { Overlay } from "../../../src/base/model/index.ts";
import { State } from "../../../src/engine/state/index.ts";
import { WatchedConfig, findStoredOverlay } from "../../../src/config/index.ts";
import { ManualClock } from "../../support/clock.ts";

// docs/reference/values.md: an overlay ConfigMap is moved into the Secret of its name.

interface Stored {
  metadata: {
    uid: string;
    resourceVersion: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  };
  data: Record<string, string>;
}

const SECRET: Overlay = { kind: "Secret", name: "state" };
const OURS = { "app.kubernetes.io/created-by": "addon-operator" };
const failure = (status: number, reason: string): ApiError =>
  new ApiError({ status, reason, message: reason });
const base64 = (text: string): string => Buffer.from(text).toString("base64");
const plain = (data: Record<string, string> | undefined): Record<string, string> =>
  Object.fromEntries(
    Object.entries(data ?? {}).map(([key, text]) => [key, Buffer.from(text, "base64").toString()]),
  );

/** A server that keeps one ConfigMap and one Secret by the rules of the API: versions, preconditions, merge patches. */
class Server {
  readonly objects = new Map<string, Stored>();
  readonly writes: string[] = [];
  /** Refuses the nth write with this error, after having done it or before. */
  fault: { at: number; done: boolean; error: ApiError } | undefined;
  #version = 10;

  put(plural: string, data: Record<string, string>, labels?: Record<string, string>): Stored {
    const uid = this.objects.get(plural)?.metadata.uid ?? `${plural}-${this.#version}`;
    const metadata = { uid, resourceVersion: String(++this.#version), labels };
    const stored = { metadata, data } as Stored;
    this.objects.set(plural, stored);
    return stored;
  }

  readonly client = {
    json: async (request: ApiRequest): Promise<unknown> => {
      const { method = "GET" } = request;
      const plural = request.path.includes("/secrets") ? "secrets" : "configmaps";
      if (method === "GET") return this.#found(plural);
      this.writes.push(`${method} ${plural}`);
      const fault = this.fault?.at === this.writes.length ? this.fault : undefined;
      if (fault?.done === false) throw fault.error;
      const answer = this.#write(method, plural, request.body as Stored & { preconditions?: object });
      if (fault?.done === true) throw fault.error;
      return answer;
    },
  } as unknown as KubeClient;

  #found(plural: string): Stored {
    const found = this.objects.get(plural);
    if (found === undefined) throw failure(404, "NotFound");
    return structuredClone(found);
  }

  #write(method: string, plural: string, body: Stored & { preconditions?: object }): unknown {
    if (method === "POST" && this.objects.has(plural)) throw failure(409, "AlreadyExists");
    if (method === "POST") {
      const made = this.put(plural, body.data, body.metadata.labels);
      made.metadata.annotations = body.metadata.annotations ?? {};
      return structuredClone(made);
    }
    const { metadata, data } = this.#found(plural);
    const wanted = method === "DELETE" ? body.preconditions : body.metadata;
    const { resourceVersion } = wanted as { resourceVersion: string };
    if (resourceVersion !== metadata.resourceVersion) throw failure(409, "Conflict");
    if (method === "DELETE") return this.objects.delete(plural);
    const after = this.put(plural, { ...data, ...body.data }, metadata.labels);
    after.metadata.annotations = { ...metadata.annotations, ...body.metadata.annotations };
    return structuredClone(after);
  }

  followed(overlay: Overlay = SECRET): { followed: WatchedConfig; state: State } {
    const clock = new ManualClock(0);
    const state = new State({ clock });
    const { client } = this;
    const hub = {} as WatchHub;
    const more = {
      clock,
      state,
      name: "state-of-people",
      report: { configUnusable: () => {}, ownWatchChanged: () => {} },
    };
    const followed = new WatchedConfig({
      client,
      hub,
      logger: silentLogger,
      namespace: "ops",
      overlay,
      ...more,
    });
    return { followed, state };
  }
}

describe("moving the overlay", () => {
  it("leaves the same content, in the Secret alone", async () => {
    const server = new Server();
    server.put("configmaps", { app: "password: ä\n", global: "a: 1\n" }, OURS);
    await server.followed().followed.moveOverlay();
    expect(plain(server.objects.get("secrets")?.data)).toEqual({ app: "password: ä\n", global: "a: 1\n" });
    expect(server.objects.has("configmaps")).toBe(false);
    await server.followed().followed.moveOverlay();
    expect(server.writes).toEqual(["POST secrets", "DELETE configmaps"]);
  });

  it("does nothing without one, and for an overlay that stays a ConfigMap", async () => {
    const server = new Server();
    await server.followed().followed.moveOverlay();
    server.put("configmaps", { app: "a: 1" }, OURS);
    await server.followed({ kind: "ConfigMap", name: "state" }).followed.moveOverlay();
    expect(server.writes).toEqual([]);
  });

  const cuts = [1, 2].flatMap((at) => [true, false].map((done) => ({ at, done })));
  it.each(cuts)("goes on where it was cut off: write $at, done: $done", async ({ at, done }) => {
    const server = new Server();
    server.put("configmaps", { app: "a: 1\n" }, OURS);
    server.fault = { at, done, error: failure(500, "InternalError") };
    await expect(server.followed().followed.moveOverlay()).rejects.toThrow(/InternalError/);
    expect([...server.objects.keys()]).not.toEqual([]);
    server.fault = undefined;
    await server.followed().followed.moveOverlay();
    expect(plain(server.objects.get("secrets")?.data)).toEqual({ app: "a: 1\n" });
    expect(server.objects.has("configmaps")).toBe(false);
  });

  it("keeps what was written into the Secret after it was copied", async () => {
    const server = new Server();
    server.put("configmaps", { app: "a: 1\n" }, OURS);
    server.fault = { at: 2, done: false, error: failure(500, "InternalError") };
    await expect(server.followed().followed.moveOverlay()).rejects.toThrow(/InternalError/);
    const secret = server.objects.get("secrets") as Stored;
    secret.data["app"] = base64("a: 2\n");
    server.fault = undefined;
    await server.followed().followed.moveOverlay();
    expect(plain(server.objects.get("secrets")?.data)).toEqual({ app: "a: 2\n" });
  });

  it("takes what an operator of before wrote after it was copied", async () => {
    const server = new Server();
    server.put("configmaps", { app: "a: 1\n", old: "b: 1\n" }, OURS);
    server.fault = { at: 2, done: false, error: failure(500, "InternalError") };
    await expect(server.followed().followed.moveOverlay()).rejects.toThrow(/InternalError/);
    server.fault = undefined;
    server.put("configmaps", { app: "a: 3\n" }, OURS);
    await server.followed().followed.moveOverlay();
    expect(plain(server.objects.get("secrets")?.data)).toEqual({ app: "a: 3\n", old: "b: 1\n" });
    expect(server.objects.has("configmaps")).toBe(false);
  });

  it("copies once more what is written in between", async () => {
    const server = new Server();
    server.put("configmaps", { app: "a: 1\n" }, OURS);
    const send = server.client.json.bind(server.client);
    let isFirst = true;
    server.client.json = (async (request: ApiRequest) => {
      if (request.method === "DELETE" && isFirst) server.put("configmaps", { app: "a: 2\n" }, OURS);
      if (request.method === "DELETE") isFirst = false;
      return send(request);
    }) as KubeClient["json"];
    await server.followed().followed.moveOverlay();
    expect(plain(server.objects.get("secrets")?.data)).toEqual({ app: "a: 2\n" });
    expect(server.objects.has("configmaps")).toBe(false);
  });

  it("gives up after five tries when each of its writes meets one of somebody else", async () => {
    const server = new Server();
    server.put("configmaps", { app: "a: 1\n" }, OURS);
    const send = server.client.json.bind(server.client);
    server.client.json = (async (request: ApiRequest) => {
      if (request.method === "DELETE") server.put("configmaps", { app: "a: 2\n" }, OURS);
      return send(request);
    }) as KubeClient["json"];
    await expect(server.followed().followed.moveOverlay()).rejects.toThrow(/Conflict/);
    expect(server.writes.filter((write) => write === "DELETE configmaps")).toHaveLength(5);
  });

  it("leaves a ConfigMap that is not the operator's own, and one that it may not delete", async () => {
    const server = new Server();
    server.put("configmaps", { app: "a: 1\n" });
    await server.followed().followed.moveOverlay();
    expect(server.objects.has("configmaps")).toBe(true);
    expect(plain(server.objects.get("secrets")?.data)).toEqual({ app: "a: 1\n" });
    const other = new Server();
    other.put("configmaps", { app: "a: 1\n" }, OURS);
    other.fault = { at: 2, done: false, error: failure(403, "Forbidden") };
    await other.followed().followed.moveOverlay();
    expect(other.objects.has("configmaps")).toBe(true);
  });
});

describe("a Secret as overlay", () => {
  it("is read and written in base64, and one key at a time", async () => {
    const server = new Server();
    server.put("secrets", { global: base64("a: 1\n"), other: base64("x") });
    const { followed, state } = server.followed();
    // The ConfigMap has the same answers here as the Secret has none: only the overlay counts in this test.
    server.put("configmaps", {});
    await followed.refresh();
    expect(state.values.overlay?.global).toEqual({ a: 1 });
    await followed.write("global", [{ op: "add", path: "/global/hook", value: "h" }]);
    expect(plain(server.objects.get("secrets")?.data)).toEqual({ global: "a: 1\nhook: h\n", other: "x" });
    expect(state.values.overlay?.global).toEqual({ a: 1, hook: "h" });
    expect(server.objects.get("configmaps")?.data).toEqual({});
  });

  it("is what the ConfigMap of its name says, for a look that moves nothing", async () => {
    const server = new Server();
    const home = { client: server.client, hub: {} as WatchHub, logger: silentLogger, namespace: "ops" };
    const inForce = (overlay: Overlay | undefined) => findStoredOverlay({ ...home, overlay }, overlay);
    expect(await inForce(undefined)).toBeUndefined();
    expect(await inForce(SECRET)).toEqual(SECRET);
    server.put("configmaps", {}, OURS);
    expect(await inForce(SECRET)).toEqual({ kind: "ConfigMap", name: "state" });
    server.put("secrets", {});
    expect(await inForce(SECRET)).toEqual(SECRET);
    expect(server.writes).toEqual([]);
  });
});
