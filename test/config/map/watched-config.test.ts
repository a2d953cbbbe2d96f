import * as fc from "fast-check";
import { describe, expect, it, test } from "vitest";

import { ApiError, ConnectionError } from "../../../src/kube/index.ts";
import type {
  ApiRequest,
  KubeClient,
  WatchConsumer,
  WatchHub,
  WatchSpec,
  WatchedObject,
} from "../../../src/kube/index.ts";
import { State } from "../../../src/engine/state/index.ts";
import { WatchedConfig } from "../../../src/config/index.ts";
import { validatePatches } from "../../../src/values/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";
import { keepLog } from "../../support/logged.ts";
import type { LoggedLine } from "../../support/logged.ts";
import { handlesConfig } from "../../support/state.ts";

interface Stored {
  readonly metadata: ReturnType<typeof metaOf>;
  readonly data: Record<string, string>;
}

const metaOf = (name: string, version: number) => ({
  namespace: "ops",
  name,
  uid: `u-${name}`,
  resourceVersion: String(version),
});

const failure = (status: number, reason: string) => new ApiError({ status, reason, message: reason });

/** What may come between a write and its answer; `answer` is what the server did. */
type Between = (lab: Lab, request: ApiRequest, answer: () => Stored) => Stored | Promise<Stored>;
type Lab = ReturnType<typeof world>;

/** A server with two ConfigMaps, and what an operator does to them; `before` may change them before a request is answered. */
function world(
  data: Record<string, string>,
  before: (request: ApiRequest) => void = () => {},
  more: { between?: Between; overlay?: Record<string, string> } = {},
) {
  let version = 1;
  const stored = new Map<string, Stored>([["cm", { metadata: metaOf("cm", 1), data }]]);
  if (more.overlay !== undefined) stored.set("over", { metadata: metaOf("over", 1), data: more.overlay });
  const put = (change: Record<string, string | null>, name = "cm"): Stored => {
    const old = stored.get(name);
    const next = Object.entries({ ...old?.data, ...change }).filter(([, text]) => text !== null);
    version += 1;
    const object = {
      metadata: metaOf(name, version),
      data: Object.fromEntries(next) as Record<string, string>,
    };
    stored.set(name, object);
    return object;
  };
  const patches: ApiRequest[] = [];
  const write = (request: ApiRequest, name: string): Stored => {
    const body = request.body as Pick<Stored, "metadata"> & { data: Record<string, string | null> };
    patches.push(request);
    const now = stored.get(name);
    if (body.metadata.resourceVersion !== now?.metadata.resourceVersion) throw failure(409, "Conflict");
    return put(body.data, name);
  };
  const client = {
    json: async (request: ApiRequest): Promise<unknown> => {
      before(request);
      const name = request.path.split("/").at(-1) ?? "";
      if (request.method === "PATCH") {
        const act = (): Stored => write(request, name);
        return more.between === undefined ? act() : more.between(lab, request, act);
      }
      if (request.method === "POST") {
        const body = request.body as Stored;
        return put(body.data ?? {}, body.metadata.name);
      }
      const found = stored.get(name);
      if (found === undefined) throw failure(404, "NotFound");
      return found;
    },
  } as unknown as KubeClient;
  const consumers = new Map<string, WatchConsumer>();
  const hub = {
    subscribe: ({ fieldSelector = "" }: WatchSpec, each: WatchConsumer) => {
      consumers.set(fieldSelector.slice("metadata.name=".length), each);
      return { whenSynced: Promise.resolve(), close: () => {} };
    },
  } as unknown as WatchHub;
  const clock = new ManualClock(0);
  const state = new State({ clock });
  const logged: LoggedLine[] = [];
  const base = {
    client,
    hub,
    state,
    clock,
    logger: keepLog(logged),
    namespace: "ops",
    report: { configUnusable: () => {}, ownWatchChanged: () => {} },
  };
  const overlay = more.overlay === undefined ? undefined : ({ kind: "ConfigMap", name: "over" } as const);
  const followed = new WatchedConfig({ ...base, name: "cm", overlay });
  const report = (object: Stored, name = "cm"): void =>
    consumers.get(name)?.onApplied(object as unknown as WatchedObject) as void;
  /** Deletes it; the watch learns of it with the call of the result. */
  const lose = (name: string): (() => void) => {
    const missing = { ...stored.get(name), metadata: metaOf(name, ++version) };
    stored.delete(name);
    return () => consumers.get(name)?.onDeleted(missing as unknown as WatchedObject, true) as void;
  };
  const lab = {
    followed,
    state,
    put,
    patches,
    report,
    lose,
    clock,
    logged,
    stored: (name = "cm") => stored.get(name) as Stored,
  };
  return lab;
}

const PORT = {
  file: "config-values.yaml",
  text: "{type: object, additionalProperties: true, properties: {port: {type: integer}}}",
};

const add = (value: string) => [{ op: "add", path: "/global/hook", value } as const];

describe("what hooks write", () => {
  it("is one key; every other one stays byte for byte", async () => {
    const key = fc.stringMatching(/^[a-z][a-zA-Z0-9]{0,8}$/).filter((name) => name !== "global");
    await fc.assert(
      fc.asyncProperty(fc.dictionary(key, fc.string()), fc.string(), async (others, value) => {
        const { followed, patches, stored } = world({ ...others, global: "a: 1 # kept by people\n" });
        await followed.refresh();
        await followed.write("global", add(value));
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
    await lab.followed.write("global", add("h"));
    expect(lab.patches).toHaveLength(2);
    expect(lab.stored().data).toEqual({ global: "a: 2\nhook: h\n", other: "x" });
  });

  it("never makes a ConfigMap that is missing", async () => {
    const { followed, patches } = world({}, () => {
      throw failure(404, "NotFound");
    });
    await expect(followed.write("global", add("h"))).rejects.toThrow(/ConfigMapMissing/);
    expect(patches).toEqual([]);
  });
});

describe("a ConfigMap that cannot be created at a first start", () => {
  async function startWithoutRight() {
    let mayCreate = false;
    const lab = world({}, ({ method }) => {
      if (method === "POST" && !mayCreate) throw failure(403, "Forbidden");
    });
    lab.lose("cm");
    await lab.followed.refresh();
    await lab.followed.createEmpty();
    return Object.assign(lab, { grant: () => (mayCreate = true) });
  }

  it("counts as empty, and is created by the first write of a hook that may", async () => {
    const lab = await startWithoutRight();
    await expect(lab.followed.write("global", add("h"))).rejects.toThrow(/Forbidden/);
    lab.grant();
    await lab.followed.write("global", add("h"));
    expect(lab.stored().data).toEqual({ global: "hook: h\n" });
    lab.lose("cm");
    await expect(lab.followed.write("global", add("i"))).rejects.toThrow(/ConfigMapMissing/);
  });

  it("is not missing when it is read again, unless it has existed meanwhile", async () => {
    const lab = await startWithoutRight();
    await lab.followed.refresh();
    expect(lab.state.view.config.condition).toBe("ok");
    lab.put({ global: "a: 1" });
    await lab.followed.refresh();
    expect(lab.state.values.config?.global).toEqual({ a: 1 });
    lab.lose("cm");
    await lab.followed.refresh();
    expect(lab.state.view.config.condition).toBe("missing");
  });
});

describe("what a watch reports", () => {
  it("is ignored where it is older than what was read meanwhile", async () => {
    const { followed, state, put, report, stored } = world({ global: "a: 1" });
    const old = stored();
    await followed.refresh();
    await followed.watch();
    put({ global: "a: 2" });
    await followed.refresh();
    report(old);
    await Promise.resolve();
    expect(state.values.config?.global).toEqual({ a: 2 });
    report(put({ global: "a: 3" }));
    await Promise.resolve();
    expect(state.values.config?.global).toEqual({ a: 3 });
  });
});

describe("what a hook wrote comes into force once", () => {
  const append = [{ op: "add", path: "/global/list/-", value: "b" } as const];
  const start = async (
    between: Between,
    data: Record<string, string> = { global: "{list: [a], old: 1}" },
  ): Promise<Lab> => {
    const lab = world(data, undefined, { between });
    await lab.followed.refresh();
    await lab.followed.watch();
    return lab;
  };
  const inForce = async (lab: Lab): Promise<unknown> => {
    await lab.clock.advance(1000);
    return lab.state.values.config?.global;
  };

  it("when the watch is faster than the answer, and without a word to the plan", async () => {
    const lab = await start(async ({ report }, _, answer) => {
      const after = answer();
      report(after);
      await settle();
      return after;
    });
    lab.state.record("configHandled", "globalConfig");
    await lab.followed.write("global", append);
    expect(await inForce(lab)).toEqual({ list: ["a", "b"], old: 1 });
    expect(handlesConfig(lab.state)).toBe(true);
    await lab.followed.write("global", [{ op: "remove", path: "/global/old" }]);
    expect(await inForce(lab)).toEqual({ list: ["a", "b"] });
    expect(lab.stored().data).toEqual({ global: "list:\n  - a\n  - b\n" });
  });

  it("when an edit follows before the answer: the edit stays, and is news to the plan", async () => {
    const lab = await start(async ({ report, put }, _, answer) => {
      const after = answer();
      report(after);
      report(put({ global: "{list: [z]}" }));
      await settle();
      return after;
    });
    lab.state.record("configHandled", "globalConfig");
    await lab.followed.write("global", append);
    expect(await inForce(lab)).toEqual({ list: ["z"] });
    expect(handlesConfig(lab.state)).toBe(false);
  });

  it("when an edit that the write builds upon was not seen yet: it is news to the plan", async () => {
    const lab = await start((_lab, _request, answer) => answer());
    lab.state.record("configHandled", "globalConfig");
    lab.put({ global: "{list: [x]}" });
    await lab.followed.write("global", append);
    expect(await inForce(lab)).toEqual({ list: ["x", "b"] });
    expect(handlesConfig(lab.state)).toBe(false);
  });

  it.each(["ETIMEDOUT", "ECONNRESET"])(
    "when the answer is lost although it was written: %s",
    async (code) => {
      const lab = await start((_lab, _request, answer) => {
        answer();
        throw new ConnectionError(code, "no answer");
      });
      await lab.followed.write("global", append);
      expect(await inForce(lab)).toEqual({ list: ["a", "b"], old: 1 });
    },
  );

  it("when it was written and the second sending conflicts with the first", async () => {
    const lab = await start((_lab, _request, answer) => {
      answer();
      return answer();
    });
    await lab.followed.write("global", append);
    expect(lab.stored().data["global"]).toBe("list:\n  - a\n  - b\nold: 1\n");
    expect(await inForce(lab)).toEqual({ list: ["a", "b"], old: 1 });
  });

  it("fails where the answer is lost and nothing was written", async () => {
    const lab = await start(() => {
      throw new ConnectionError("ETIMEDOUT", "no answer");
    });
    await expect(lab.followed.write("global", append)).rejects.toThrow("no answer");
    expect(await inForce(lab)).toEqual({ list: ["a"], old: 1 });
  });

  it("is applied to what is in force while the ConfigMap is invalid", async () => {
    const lab = await start(async ({ report }, _, answer) => {
      const after = answer();
      report(after);
      await settle();
      return after;
    });
    lab.state.recordTree({ ...lab.state.tree, globalSchemas: { config: PORT } });
    lab.report(lab.put({ global: "{list: [r], port: none}" }));
    await lab.clock.advance(100);
    expect(lab.state.view.config.condition).toBe("invalid");
    await lab.followed.write("global", append);
    expect(await inForce(lab)).toEqual({ list: ["a", "b"], old: 1 });
    expect(lab.stored().data["global"]).toBe("list:\n  - r\n  - b\nport: none\n");
    lab.report(lab.put({ global: "{list: [r, b], port: 1}" }));
    expect(await inForce(lab)).toEqual({ list: ["r", "b"], port: 1 });
  });
});

describe("an overlay", () => {
  it.each(["at once", "later"])(
    "that was deleted is written again whole; the watch reports %s",
    async (when) => {
      const lab = world({}, undefined, { overlay: { global: "{kept: 1}", other: "{}" } });
      await lab.followed.refresh();
      await lab.followed.watch();
      const tellGone = lab.lose("over");
      if (when === "later") await lab.followed.write("global", add("h"));
      tellGone();
      await settle();
      await lab.followed.write("global", add("h"));
      await lab.clock.advance(10_000);
      expect(lab.stored("over").data).toEqual({ global: "kept: 1\nhook: h\n", other: "{}" });
      expect(lab.state.values.configSection("global")).toEqual({ kept: 1, hook: "h" });
    },
  );

  it("that cannot be written again is not tried any more once all is closed", async () => {
    const refused = ({ method }: ApiRequest): void => {
      if (method === "POST") throw failure(403, "Forbidden");
    };
    const { followed, lose, clock, logged } = world({}, refused, { overlay: { global: "{kept: 1}" } });
    await followed.refresh();
    await followed.watch();
    lose("over")();
    await clock.advance(0);
    expect(logged.map(([, text]) => text)).toContain("The overlay cannot be written");
    followed.close();
    expect(clock.timers).toBe(0);
  });

  it("is assessed as it will be: a patch over a key that it has already", async () => {
    const lab = world({}, undefined, { overlay: { global: "{port: 80}" } });
    lab.state.recordTree({ ...lab.state.tree, globalSchemas: { config: PORT } });
    await lab.followed.refresh();
    const judge = (value: unknown) => {
      const config = JSON.stringify({ op: "add", path: "/global/port", value });
      return validatePatches(lab.state.values, "global", { config, values: "" });
    };
    expect(() => judge("none")).toThrow("config values patch makes global invalid: /port");
    expect(judge(81).config).toHaveLength(1);
  });

  it("is assessed again over what somebody wrote meanwhile", async () => {
    const lab = world({}, undefined, { overlay: {} });
    lab.state.recordTree({ ...lab.state.tree, globalSchemas: { config: PORT } });
    await lab.followed.refresh();
    lab.put({ global: "{extra: true}" }, "cm");
    lab.put({ global: "{port: 1}" }, "over");
    await expect(
      lab.followed.write("global", [{ op: "add", path: "/global/port", value: "none" }]),
    ).rejects.toThrow(/makes global invalid/);
    expect(lab.patches).toEqual([]);
  });
});

test("a key that matches no module is warned of, once, and in the state with the key that was meant", async () => {
  const { followed, state, logged } = world({ gobal: "a: 1", old: "a: 1" });
  await followed.refresh();
  await followed.refresh();
  const keys = ["gobal (did you mean global?)", "old"];
  expect(logged).toEqual([["warn", "ConfigMap keys match no module", { keys }]]);
  expect(state.view.config.unknownKeys).toEqual(keys);
});

test("a key of binaryData is warned of, once", async () => {
  const { followed, logged, stored } = world({ global: "a: 1\n" });
  Object.assign(stored(), { binaryData: { web: "Y2Fmlw==" } });
  await followed.refresh();
  await followed.refresh();
  const text =
    "ConfigMap cm: web: is in binaryData, which the operator does not read (write it to data as UTF-8 text)";
  expect(logged).toEqual([["warn", text, undefined]]);
});

test("a key that stands twice is warned of, once", async () => {
  const { followed, logged } = world({ global: "a: 1\na: 2\n" });
  await followed.refresh();
  await followed.refresh();
  expect(logged).toEqual([["warn", expect.stringContaining("global"), undefined]]);
});
