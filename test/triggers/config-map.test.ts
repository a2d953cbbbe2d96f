import * as fc from "fast-check";
import { describe, expect, it, test } from "vitest";

import { ApiError } from "../../src/kube/index.ts";
import type { ApiRequest, KubeClient, WatchConsumer, WatchHub, WatchedObject } from "../../src/kube/index.ts";
import { State } from "../../src/state/index.ts";
import { ConfigMapSource } from "../../src/triggers/index.ts";
import { ManualClock } from "../support/clock.ts";
import { keepLog } from "../support/logged.ts";
import type { LoggedLine } from "../support/logged.ts";

interface Stored {
  readonly metadata: { readonly resourceVersion: string; readonly uid: string };
  readonly data: Record<string, string>;
}

const failure = (status: number, reason: string) => new ApiError({ status, reason, message: reason });

/** A server with one ConfigMap, and what a source does to it; `before` may change it before a request is answered. */
function world(data: Record<string, string>, before: (request: ApiRequest) => void = () => {}) {
  let version = 1;
  let stored: Stored = { metadata: { resourceVersion: "1", uid: "u" }, data };
  const put = (change: Record<string, string | null>): Stored => {
    const next = Object.entries({ ...stored.data, ...change }).filter(([, text]) => text !== null);
    version += 1;
    stored = {
      metadata: { resourceVersion: String(version), uid: "u" },
      data: Object.fromEntries(next) as Record<string, string>,
    };
    return stored;
  };
  const patches: ApiRequest[] = [];
  const client = {
    json: async (request: ApiRequest): Promise<unknown> => {
      before(request);
      if (request.method !== "PATCH") return stored;
      const body = request.body as Pick<Stored, "metadata"> & { data: Record<string, string | null> };
      patches.push(request);
      if (body.metadata.resourceVersion !== stored.metadata.resourceVersion) throw failure(409, "Conflict");
      return put(body.data);
    },
  } as unknown as KubeClient;
  let consumer: WatchConsumer | undefined;
  const hub = {
    subscribe: (_: unknown, each: WatchConsumer) => {
      consumer = each;
      return { synced: Promise.resolve(), close: () => {} };
    },
  } as unknown as WatchHub;
  const clock = new ManualClock(0);
  const state = new State({ clock, onChange: () => {} });
  const logged: LoggedLine[] = [];
  const base = { client, hub, state, clock, logger: keepLog(logged), namespace: "ops", onTrouble: () => {} };
  const source = new ConfigMapSource({ ...base, name: "cm", overlay: undefined });
  const tell = (object: Stored): void => consumer?.applied(object as unknown as WatchedObject) as void;
  return { source, state, put, patches, tell, logged, stored: () => stored };
}

const add = (value: string) => [{ op: "add", path: "/global/hook", value } as const];

describe("what hooks write", () => {
  it("is one key; every other one stays byte for byte", async () => {
    const key = fc.stringMatching(/^[a-z][a-zA-Z0-9]{0,8}$/).filter((name) => name !== "global");
    await fc.assert(
      fc.asyncProperty(fc.dictionary(key, fc.string()), fc.string(), async (others, value) => {
        const { source, patches, stored } = world({ ...others, global: "a: 1 # kept by people\n" });
        await source.refresh();
        await source.write("global", add(value));
        expect(patches.map(({ body }) => Object.keys((body as Stored).data))).toEqual([["global"]]);
        const { global, ...rest } = stored().data;
        expect(rest).toEqual(others);
        expect(global).toContain("a: 1");
      }),
      { numRuns: 50 },
    );
  });

  it("is tried again over fresh content when somebody was faster", async () => {
    let isFirst = true;
    const lab = world({ global: "a: 1" }, ({ method }) => {
      if (method !== "PATCH" || !isFirst) return;
      isFirst = false;
      lab.put({ global: "a: 2", other: "x" });
    });
    await lab.source.write("global", add("h"));
    expect(lab.patches).toHaveLength(2);
    expect(lab.stored().data).toEqual({ global: "a: 2\nhook: h\n", other: "x" });
  });

  it("never makes a ConfigMap that is missing", async () => {
    const { source, patches } = world({}, () => {
      throw failure(404, "NotFound");
    });
    await expect(source.write("global", add("h"))).rejects.toThrow(/ConfigMapMissing/);
    expect(patches).toEqual([]);
  });
});

describe("what a watch tells", () => {
  it("is ignored where it is older than what was read meanwhile", async () => {
    const { source, state, put, tell, stored } = world({ global: "a: 1" });
    const old = stored();
    await source.refresh();
    await source.watch();
    put({ global: "a: 2" });
    await source.refresh();
    tell(old);
    await Promise.resolve();
    expect(state.values.config?.global).toEqual({ a: 2 });
    tell(put({ global: "a: 3" }));
    await Promise.resolve();
    expect(state.values.config?.global).toEqual({ a: 3 });
  });
});

test("a key that matches no module is warned of, once, and in the state with the key that was meant", async () => {
  const { source, state, logged } = world({ gobal: "a: 1", old: "a: 1" });
  await source.refresh();
  await source.refresh();
  const keys = ["gobal (did you mean global?)", "old"];
  expect(logged).toEqual([["warn", "ConfigMap keys match no module", { keys }]]);
  expect(state.view.config.unknownKeys).toEqual(keys);
});

test("a key that stands twice is warned of, once", async () => {
  const { source, logged } = world({ global: "a: 1\na: 2\n" });
  await source.refresh();
  await source.refresh();
  expect(logged).toEqual([["warn", expect.stringContaining("global"), undefined]]);
});
