import { describe, expect, it } from "vitest";

import type { Resource, WatchConsumer, WatchedObject, WatchHub, WatchSpec } from "../../src/kube/index.ts";
import { KindFinder, MissingPermissionsError } from "../../src/kube/index.ts";
import { compileCel } from "../../src/base/index.ts";
import { requiredKey } from "../../src/base/model/index.ts";
import type { Module, RequiredObject } from "../../src/base/model/index.ts";
import { State } from "../../src/engine/state/index.ts";
import { NO_TREE } from "../../src/engine/state/view.ts";
import { RequiredObjects } from "../../src/config/index.ts";
import { ManualClock, settle } from "../support/clock.ts";

const SECRETS: Resource = {
  group: "",
  version: "v1",
  plural: "secrets",
  kind: "Secret",
  namespaced: true,
  verbs: ["get", "list", "watch"],
};
const CA: RequiredObject = { apiVersion: "v1", kind: "Secret", name: "ca" };

interface Open {
  readonly spec: WatchSpec;
  readonly consumer: WatchConsumer;
}

/** The objects that modules a, b, … require, with watches that tests feed. */
function lab(...required: readonly RequiredObject[]) {
  return accountLab({}, ...required);
}

/** As `lab`, for modules that act as `account`, which may do what `assertPermitted` does not reject. */
function accountLab(
  { account, assertPermitted }: { account?: string; assertPermitted?: (wanted: unknown) => Promise<void> },
  ...required: readonly RequiredObject[]
) {
  const clock = new ManualClock();
  const state = new State({ clock });
  const open: Open[] = [];
  const known = new Map([["Secret", SECRETS]]);
  let requested = 0;
  const subscribe = (spec: WatchSpec, consumer: WatchConsumer) => {
    const one = { spec, consumer };
    open.push(one);
    return { whenSynced: Promise.resolve(), close: () => void open.splice(open.indexOf(one), 1) };
  };
  const hub = { subscribe } as unknown as WatchHub;
  const discovery = {
    resolve: (kind: string) => {
      requested++;
      return Promise.resolve(known.get(kind));
    },
    invalidate: () => {},
  };
  const objects = new RequiredObjects({
    hub,
    kinds: new KindFinder({ hub, discovery, clock }),
    clock,
    namespace: "own",
    state,
    accountLimitsOf: () => assertPermitted && { assertPermitted },
  });
  const modules = required.map((object, place) => {
    const name = "abc"[place] ?? "";
    const none = { file: "", section: undefined, enabled: undefined };
    const layers = { common: none, own: none, schemas: {} };
    const identity = account === undefined ? {} : { serviceAccountName: account };
    return { name, valuesKey: name, requires: { objects: [object] }, crdFiles: [], ...layers, ...identity };
  });
  state.recordTree({ ...NO_TREE, modules: modules as unknown as Module[] });
  const turn = async (name: string, enabled: boolean): Promise<void> => {
    state.recordModule(name, "enablementDecided", { enabled, by: "configmap" });
    await settle();
  };
  const reported = (object = CA, of?: Module): string | undefined => {
    const found = state.view.objects.get(requiredKey(object, of));
    return found === undefined ? "unknown" : (found.message ?? "met");
  };
  return { clock, state, open, known, turn, reported, objects, requested: () => requested };
}

const secret = (more: object = {}): WatchedObject =>
  ({ apiVersion: "v1", kind: "Secret", metadata: { name: "ca" }, ...more }) as WatchedObject;

describe("objects that modules require", () => {
  it("are watched for a module with an account only while the account may get them", async () => {
    let mayGet = false;
    const wanted: unknown[] = [];
    const assertPermitted = async (permissions: unknown): Promise<void> => {
      wanted.push(permissions);
      await settle();
      if (!mayGet) throw new MissingPermissionsError({ namespace: "t", name: "d" }, ["get secrets ca"]);
    };
    const { turn, open, reported, clock, state } = accountLab({ account: "d", assertPermitted }, CA, CA);
    await turn("a", true);
    await settle();
    const of = state.tree.modules[0] as Module;
    expect(open).toEqual([]);
    expect(wanted).toEqual([[{ verb: "get", group: "", resource: "secrets", namespace: "own", name: "ca" }]]);
    const refusal = "cannot be checked: ServiceAccount t/d may not get secrets ca; grant it these rights";
    expect(reported(CA, of)).toBe(refusal);
    expect(reported(CA)).toBe("unknown");
    mayGet = true;
    await clock.advance(10_000);
    await expect.poll(() => open).toHaveLength(1);
    void open[0]?.consumer.onSynced("1");
    void open[0]?.consumer.onApplied(secret());
    await clock.advance(1000);
    expect(reported(CA, of)).toBe("met");
    mayGet = false;
    await clock.advance(5 * 60_000);
    await expect.poll(() => open).toEqual([]);
    expect(reported(CA, of)).toBe(refusal);
  });

  it("are watched one by one while a module is on that requires them, once for all of these", async () => {
    const { turn, open, reported } = lab(CA, CA);
    expect(open).toEqual([]);
    await turn("a", true);
    await turn("b", true);
    expect(open.map(({ spec }) => spec)).toEqual([
      { resource: SECRETS, namespace: "own", fieldSelector: "metadata.name=ca", metadataOnly: true },
    ]);
    expect(reported()).toBe("unknown");
    void open[0]?.consumer.onSynced("1");
    expect(reported()).toBe("is not there");
    await turn("a", false);
    expect(open).toHaveLength(1);
    await turn("b", false);
    expect(open).toEqual([]);
    expect(reported()).toBe("unknown");
  });

  it("are looked at when they come, change and go", async () => {
    const wanted = { ...CA, condition: "Ready", cel: "object.data.a == 'b'" };
    const { turn, open, reported, clock } = lab(wanted);
    await compileCel(wanted.cel);
    await turn("a", true);
    await expect.poll(() => open).toHaveLength(1);
    const { consumer } = open[0] as Open;
    void consumer.onSynced("1");
    const conditions = [{ type: "Ready", status: "True" }];
    const steps: [object | undefined, string][] = [
      [{}, "is not Ready"],
      [{ status: { conditions: "x" } }, "is not Ready"],
      [{ status: { conditions } }, "has an expression that fails: No such key: data"],
      [{ status: { conditions }, data: { a: "c" } }, "does not meet its expression"],
      [{ status: { conditions }, data: { a: "b" } }, "met"],
      [undefined, "is not there"],
    ];
    for (const [more, message] of steps) {
      await clock.advance(1000);
      if (more === undefined) void consumer.onDeleted(secret(), true);
      else void consumer.onApplied(secret(more));
      expect(reported(wanted)).toBe(message);
    }
  });

  it("that change all the time are looked at once a second, and the last change counts", async () => {
    const { turn, open, reported, clock, state } = lab(CA);
    await turn("a", true);
    const { consumer } = open[0] as Open;
    void consumer.onSynced("1");
    let records = 0;
    state.onChange(() => void records++);
    for (let change = 0; change < 500; change++) {
      if (change % 2 === 0) void consumer.onApplied(secret());
      else void consumer.onDeleted(secret(), true);
      await clock.advance(10);
    }
    expect(records).toBeLessThanOrEqual(5);
    void consumer.onApplied(secret());
    await clock.advance(1000);
    expect(reported()).toBe("met");
  });

  it("with an expression that took too long are looked at again after a minute", async () => {
    const wanted = { ...CA, cel: "object.data.t.matches('^(x+)+$')" };
    const { turn, open, reported, clock } = lab(wanted);
    await turn("a", true);
    await expect.poll(() => open).toHaveLength(1);
    let text = `${"x".repeat(60)}y`;
    const data = {
      get t() {
        return text;
      },
    };
    const { consumer } = open[0] as Open;
    void consumer.onListed(secret({ data }));
    void consumer.onSynced("1");
    expect(reported(wanted)).toBe("has an expression that takes too long");
    text = "xx";
    await clock.advance(59_999);
    expect(reported(wanted)).toBe("has an expression that takes too long");
    await clock.advance(1);
    expect(reported(wanted)).toBe("met");
  });

  it("of a kind that is not there yet are reported, and found when it comes", async () => {
    const { turn, known, open, reported, clock, requested } = lab(CA);
    known.clear();
    await turn("a", true);
    expect(reported()).toBe("is of a kind that the server does not know");
    const before = requested();
    await clock.advance(60_000);
    await settle();
    expect(requested() - before).toBeLessThanOrEqual(13);
    known.set("Secret", SECRETS);
    await clock.advance(5000);
    await settle();
    expect(open.map(({ spec }) => spec.fieldSelector)).toContain("metadata.name=ca");
  });

  it("that may not be watched are reported; what was found stays while the server is away", async () => {
    const { turn, open, reported } = lab(CA);
    await turn("a", true);
    const { consumer } = open[0] as Open;
    consumer.onError?.(new Error("secrets is forbidden"));
    expect(reported()).toBe("cannot be watched: secrets is forbidden");
    void consumer.onListed(secret());
    void consumer.onSynced("1");
    expect(reported()).toBe("met");
    consumer.onError?.(new Error("connection refused"));
    expect(reported()).toBe("met");
  });
});
