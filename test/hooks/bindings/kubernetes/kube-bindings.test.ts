import { describe, expect, it } from "vitest";

import { FilterError } from "../../../../src/hooks/filter/index.ts";
import { ApiError, CONFIG_MAPS } from "../../../../src/kube/index.ts";
import type { Json } from "../../../../src/base/model/index.ts";
import { added, configMap, list, modified, removed } from "../../../kube/watch/watch-server.ts";
import { settle } from "../../../support/clock.ts";
import { binding, hookOf } from "../../build.ts";
import { keepLog } from "../../../support/logged.ts";
import type { LoggedLine } from "../../../support/logged.ts";
import { bindingsLab, names } from "./bindings-lab.ts";

const color = (name: string, version: number, value: string): object =>
  configMap(name, version, { data: { color: value } });

async function enabled(of = hookOf("h", [binding()]), items = [color("b", 2, "red"), color("a", 1, "blue")]) {
  const lab = bindingsLab();
  const ready = lab.bindings.enable(of);
  const watch = await lab.serve(10, items);
  await ready;
  return { ...lab, of, watch };
}

it("watches that are opened again are reported from the former ones", async () => {
  const { bindings, of, serve } = await enabled();
  const first = bindings.watchGeneration(of);
  await bindings.enable(of);
  expect([typeof first, bindings.watchGeneration(of)]).toEqual(["number", first]);
  bindings.disable(of);
  expect(bindings.watchGeneration(of)).toBeUndefined();
  const ready = bindings.enable(of);
  expect(bindings.watchGeneration(of)).not.toBe(first);
  await serve(20, []);
  await ready;
});

describe("snapshots", () => {
  it("hold what was there, by namespace and name, whole and as text", async () => {
    const { bindings, of } = await enabled();
    const items = bindings.snapshots(of).byBindingName("maps");
    expect(names(items)).toEqual(["a", "b"]);
    expect(items[0]?.object).toEqual({ apiVersion: "v1", kind: "ConfigMap", ...color("a", 1, "blue") });
    expect(JSON.parse(String(Buffer.from(items[0]?.objectText ?? [])))).toEqual(items[0]?.object);
    expect("filterResult" in (items[0] ?? {})).toBe(false);
    expect(JSON.parse(JSON.stringify(items))[1]).toEqual({ object: items[1]?.object });
    expect(bindings.snapshots(of).byBindingId("kubernetes[0]")).toEqual(items);
  });

  it("hold only filter results where full objects are not wanted", async () => {
    const { bindings, of, server } = await enabled(
      hookOf("h", [binding({ keepFullObjects: false, jqFilter: ".data.color" })]),
    );
    expect(bindings.snapshots(of).byBindingName("maps")).toEqual([
      { filterResult: "blue" },
      { filterResult: "red" },
    ]);
    expect(server.pending).toBe(0);
  });

  it("ask for metadata only when neither object nor filter result is wanted", async () => {
    const { watch, bindings, of } = await enabled(hookOf("h", [binding({ keepFullObjects: false })]));
    expect(watch.request.accept).toContain("PartialObjectMetadata");
    expect(bindings.snapshots(of).byBindingName("maps")).toEqual([{}, {}]);
  });

  it("hold managedFields only where the filter names them", async () => {
    const item = configMap("a", 1, {
      metadata: { name: "a", resourceVersion: "1", managedFields: [{}, {}] },
    });
    const snapshot = async (jqFilter: string) => {
      const { bindings, of } = await enabled(hookOf("h", [binding({ jqFilter })]), [item]);
      return bindings.snapshots(of).byBindingName("maps");
    };
    expect(await snapshot(".metadata.managedFields[0]")).toMatchObject([
      { filterResult: {}, object: { metadata: { managedFields: [{}, {}] } } },
    ]);
    const [plain] = await snapshot(".metadata");
    expect(JSON.stringify(plain)).not.toContain("managedFields");
  });

  it("stay right for events the hook does not want", async () => {
    const { bindings, of, watch, take } = await enabled(hookOf("h", [binding({ events: [] })]));
    bindings.unlock(of);
    watch.send(added(color("c", 11, "x")), removed(color("a", 12, "blue")));
    await settle();
    expect(take()).toEqual([]);
    expect(names(bindings.snapshots(of).byBindingName("maps"))).toEqual(["b", "c"]);
    expect(bindings.countObjects()).toEqual([
      { hook: "h", module: undefined, binding: "maps", queue: "main", kind: "ConfigMap", objects: 2 },
    ]);
  });

  it("of two bindings with one name are shown together, never the first one's alone", async () => {
    const two = [
      binding({ name: "kubernetes" }),
      binding({ name: "kubernetes", id: "kubernetes[1]", namespaces: ["zz"] }),
    ];
    const lab = bindingsLab();
    const of = hookOf("h", two);
    const ready = lab.bindings.enable(of);
    const lists = [await lab.server.next(), await lab.server.next()];
    for (const call of lists) {
      const name = call.request.path.includes("/zz/") ? "z" : "a";
      call.send(list(1, [configMap(name, 1)])).end();
    }
    await ready;
    expect(names(lab.bindings.snapshots(of).byBindingName("kubernetes"))).toEqual(["a", "z"]);
    expect(names(lab.bindings.snapshots(of).byBindingId("kubernetes[1]"))).toEqual(["z"]);
  });
});

describe("events", () => {
  it("wait for unlock, then come in order, then at once", async () => {
    const { bindings, of, watch, take } = await enabled();
    watch.send(added(color("c", 11, "x")), modified(color("a", 12, "green")));
    await settle();
    expect(take()).toEqual([]);
    bindings.unlock(of, ["kubernetes[0]"]);
    expect(take()).toEqual(["h Added ns/c", "h Modified ns/a"]);
    watch.send(removed(color("b", 13, "red")));
    await settle();
    expect(take()).toEqual(["h Deleted ns/b"]);
  });

  it("that a snapshot of a locked binding shows already are void", async () => {
    const { bindings, of, watch, take } = await enabled();
    watch.send(added(color("c", 11, "x")));
    await settle();
    expect(names(bindings.snapshots(of).byBindingName("maps"))).toEqual(["a", "b", "c"]);
    watch.send(added(color("d", 12, "x")));
    await settle();
    bindings.unlock(of);
    expect(take()).toEqual(["h Added ns/d"]);
  });

  it("are suppressed while the filter's result is the same, Deleted never", async () => {
    const { bindings, of, watch, take, triggers } = await enabled(
      hookOf("h", [binding({ jqFilter: ".data" })]),
    );
    bindings.unlock(of);
    watch.send(
      modified({ ...color("a", 11, "blue"), labels: 1 }),
      modified(color("a", 12, "green")),
      removed(color("a", 13, "green")),
    );
    await settle();
    expect(take()).toEqual(["h Modified ns/a", "h Deleted ns/a"]);
    expect(triggers[1]).toMatchObject({
      event: { kind: "ConfigMap", item: { filterResult: { color: "green" } } },
    });
    expect(names(bindings.snapshots(of).byBindingName("maps"))).toEqual(["b"]);
  });

  it("keep the suppressed object's newest state in the snapshot", async () => {
    const { bindings, of, watch, take } = await enabled(hookOf("h", [binding({ jqFilter: ".data" })]));
    bindings.unlock(of);
    watch.send(modified(color("a", 11, "blue")));
    await settle();
    expect(take()).toEqual([]);
    expect(bindings.snapshots(of).byBindingName("maps")[0]?.object).toMatchObject({
      metadata: { resourceVersion: "11" },
    });
  });

  it("tell after a new list what vanished, with the last state known", async () => {
    const { bindings, of, watch, take, triggers, serve } = await enabled(
      hookOf("h", [binding({ jqFilter: ".data.color" })]),
    );
    bindings.unlock(of);
    watch.fail(new ApiError({ status: 410, reason: "Expired", message: "old" }));
    await serve(20, [color("b", 15, "black"), color("c", 16, "x")]);
    expect(take()).toEqual(["h Modified ns/b", "h Added ns/c", "h Deleted ns/a"]);
    expect(triggers[2]).toMatchObject({
      event: { item: { filterResult: "blue", object: { metadata: { name: "a" } } } },
    });
  });

  it("do not tell of an object that only the first try of the first list contained", async () => {
    const { bindings, server, clock, serve, take } = bindingsLab();
    const of = hookOf("h", [binding()]);
    const ready = bindings.enable(of);
    (await server.next()).send(list(10, [configMap("a", 1), configMap("b", 2)], "more")).end();
    (await server.next()).fail(new ApiError({ status: 410, reason: "Expired", message: "old" }));
    await clock.advance(0);
    await serve(20, [configMap("b", 2)]);
    await ready;
    bindings.unlock(of);
    expect(take()).toEqual([]);
    expect(names(bindings.snapshots(of).byBindingName("maps"))).toEqual(["b"]);
  });

  it("reach several hooks in alphabetical order through one watch", async () => {
    const { bindings, serve, take, server } = bindingsLab();
    const hooks = ["z", "a", "m"].map((name) => hookOf(name, [binding()]));
    const ready = hooks.map((each) => bindings.enable(each));
    const watch = await serve(10, []);
    await Promise.all(ready);
    for (const each of hooks) bindings.unlock(each);
    watch.send(added(color("c", 11, "x")));
    await settle();
    expect(take()).toEqual(["a Added ns/c", "m Added ns/c", "z Added ns/c"]);
    expect(server.pending).toBe(0);
  });

  it("cost one evaluation of a filter for each change, however many bindings have it", async () => {
    const evaluated: string[] = [];
    const compile = (text: string) =>
      Promise.resolve({
        text,
        namesManagedFields: false,
        evaluate: ({ metadata, data }: { [key: string]: unknown }): Json => {
          evaluated.push(`${text} ${(metadata as { name: string }).name}`);
          return data as Json;
        },
      });
    const timed: string[] = [];
    const { bindings, serve, take } = bindingsLab({
      filters: { compile },
      report: {
        bindingIssueChanged: () => {},
        bindingTimes: (of, { jqFilter }) => ({
          recordFilter: () => void timed.push(`${of.name} filtered by ${jqFilter}`),
          recordEvent: (seconds) => void timed.push(`${of.name} told after ${seconds} s`),
        }),
      },
    });
    const hooks = ["a", "b"].map((name) => hookOf(name, [binding({ jqFilter: "one" })]));
    hooks.push(hookOf("c", [binding({ jqFilter: "two" })]));
    const ready = hooks.map((each) => bindings.enable(each));
    const watch = await serve(10, [color("x", 1, "blue")]);
    await Promise.all(ready);
    expect(evaluated.splice(0)).toEqual(["one x", "two x"]);
    for (const each of hooks) bindings.unlock(each);
    timed.length = 0;
    watch.send(modified(color("x", 11, "red")));
    await settle();
    expect(evaluated).toEqual(["one x", "two x"]);
    expect(take()).toEqual(["a Modified ns/x", "b Modified ns/x", "c Modified ns/x"]);
    expect(timed).toEqual([
      "a filtered by one",
      "a told after 0 s",
      "b filtered by one",
      "b told after 0 s",
      "c filtered by two",
      "c told after 0 s",
    ]);
  });

  it("come from a filter that takes its time in the order of the changes", async () => {
    const gates: ((value: Json) => void)[] = [];
    const evaluate = (): Promise<Json> => new Promise((resolve) => gates.push(resolve));
    const filters = {
      compile: (text: string) => Promise.resolve({ text, namesManagedFields: false, evaluate }),
    };
    const { bindings, serve, take } = bindingsLab({ filters });
    const of = hookOf("h", [
      binding({ jqFilter: "slow" }),
      binding({ id: "kubernetes[1]", name: "too", jqFilter: "slow" }),
    ]);
    const ready = bindings.enable(of);
    const watch = await serve(10, []);
    await ready;
    bindings.unlock(of);
    watch.send(added(color("c", 11, "x")), added(color("d", 12, "x")), removed(color("c", 13, "x")));
    await settle();
    // Once for each object, although two bindings want it.
    expect(gates).toHaveLength(3);
    for (const gate of gates.toReversed()) gate("r");
    await settle();
    const one = ["h Added ns/c", "h Added ns/d", "h Deleted ns/c"];
    expect(take()).toEqual(one.flatMap((event) => [event, event]));
  });

  it("whose filter fails are reported after a second try where that makes sense and left out; a deletion counts all the same", async () => {
    let calls = 0;
    const evaluate = (object: { [key: string]: unknown }): Json => {
      calls += 1;
      const { color: is } = object["data"] as { color: string };
      if (is === "bad") throw new FilterError("engine", "jq ended");
      if (is === "worse") throw new FilterError("timeout", "the filter took over 5s");
      return 1;
    };
    const lines: LoggedLine[] = [];
    const failures = () =>
      lines.filter(([level]) => level === "error").map(([, , fields]) => fields?.["name"]);
    const filters = {
      compile: (text: string) => Promise.resolve({ text, namesManagedFields: false, evaluate }),
    };
    const { bindings, serve, take } = bindingsLab({ filters, logger: keepLog(lines) });
    const of = hookOf("h", [binding({ jqFilter: "f" })]);
    const ready = bindings.enable(of);
    const watch = await serve(10, [color("a", 1, "blue")]);
    await ready;
    bindings.unlock(of);
    calls = 0;
    watch.send(modified(color("a", 11, "bad")));
    await settle();
    expect([calls, take(), failures()]).toEqual([2, [], ["a"]]);
    watch.send(modified(color("a", 12, "worse")));
    await settle();
    expect([calls, take(), failures()]).toEqual([3, [], ["a", "a"]]);
    watch.send(removed(color("a", 13, "bad")));
    await settle();
    expect(take()).toEqual(["h Deleted ns/a"]);
    expect(bindings.snapshots(of).byBindingName("maps")).toEqual([]);
  });
});

describe("a filter that fails", () => {
  /** Fails for objects whose colour is bad. */
  const picky = (lines: LoggedLine[] = []) => {
    const evaluate = (object: { [key: string]: unknown }): Json => {
      const { color: is } = object["data"] as { color: string };
      if (is === "bad") throw new FilterError("runtime", "a text has no fields");
      return is;
    };
    const filters = {
      compile: (text: string) => Promise.resolve({ text, namesManagedFields: false, evaluate }),
    };
    return bindingsLab({ filters, logger: keepLog(lines) });
  };

  it("for a new object makes its next change Modified, also after a new list", async () => {
    const { bindings, serve, take } = picky();
    const of = hookOf("h", [binding({ jqFilter: "f" })]);
    const ready = bindings.enable(of);
    const watch = await serve(10, []);
    await ready;
    bindings.unlock(of);
    watch.send(added(color("a", 11, "bad")), added(color("b", 12, "bad")), added(color("c", 13, "red")));
    await settle();
    expect(take()).toEqual(["h Added ns/c"]);
    watch.send(modified(color("a", 14, "blue")), modified(color("c", 15, "bad")));
    await settle();
    expect(take()).toEqual(["h Modified ns/a"]);
    expect(bindings.snapshots(of).byBindingName("maps")).toMatchObject([
      { filterResult: "blue" },
      { filterResult: "red" },
    ]);
    watch.send(removed(color("b", 16, "bad")), removed(color("c", 17, "bad")));
    await settle();
    expect(take()).toEqual(["h Deleted ns/c"]);
    watch.send(added(color("b", 18, "blue")));
    await settle();
    expect(take()).toEqual(["h Added ns/b"]);
    expect(bindings.snapshots(of).byBindingName("maps")).toMatchObject([
      { filterResult: "blue" },
      { filterResult: "blue" },
    ]);
  });

  it("in the first list keeps the binding from starting; the next try lists again", async () => {
    const lines: LoggedLine[] = [];
    const { bindings, serve } = picky(lines);
    const of = hookOf("h", [binding({ jqFilter: "f" })]);
    const first = bindings.enable(of).catch(String);
    const watch = await serve(10, [color("a", 1, "red"), color("b", 2, "bad")]);
    expect(await first).toBe(
      "Error: hook h: binding maps: jqFilter failed for ConfigMap ns/b: a text has no fields",
    );
    expect(lines.filter(([level]) => level === "error").map(([, text]) => text)).toEqual([
      "jqFilter failed, the binding cannot start",
    ]);
    const second = bindings.enable(of);
    await serve(11, [color("a", 1, "red"), color("b", 11, "blue")]);
    await second;
    expect(watch.request.signal?.aborted).toBe(true);
    expect(bindings.snapshots(of).byBindingName("maps")).toMatchObject([
      { filterResult: "red" },
      { filterResult: "blue" },
    ]);
  });
});

describe("kinds", () => {
  const widget = hookOf("h", [binding({ kind: "Widget" })]);
  const WIDGETS = { ...CONFIG_MAPS, group: "x.io", kind: "Widget", plural: "widgets" };

  it("that do not exist are waited for, said, and start with a Synchronization", async () => {
    const { bindings, clock, kinds, server, take } = bindingsLab();
    await bindings.enable(widget);
    expect(bindings.listUnlistedBindings(widget)).toEqual(["kubernetes[0]"]);
    expect(bindings.issues()).toMatchObject([
      { hook: "h", binding: "maps", message: expect.stringContaining("Widget") as string },
    ]);
    expect(bindings.snapshots(widget).byBindingName("maps")).toEqual([]);
    const crds = await server.next();
    expect(crds.request.path).toContain("customresourcedefinitions");
    kinds.set("widget", WIDGETS);
    await clock.advance(5000);
    const widgets = await server.next();
    expect(widgets.request.path).toBe("/apis/x.io/v1/namespaces/ns/widgets");
    expect(crds.request.signal?.aborted).toBe(true);
    widgets.send(list(5, [configMap("w", 1)])).end();
    await settle();
    expect(take()).toEqual(["h sync maps"]);
    expect([bindings.issues(), bindings.listUnlistedBindings(widget)]).toEqual([[], []]);
    expect(names(bindings.snapshots(widget).byBindingName("maps"))).toEqual(["w"]);
  });

  it("are looked for as soon as a CRD comes", async () => {
    const { bindings, clock, kinds, serve, server } = bindingsLab();
    await bindings.enable(widget);
    const crds = await serve(1, []);
    kinds.set("widget", WIDGETS);
    crds.send(added(configMap("widgets.x.io", 2)));
    await settle();
    await clock.advance(250);
    expect((await server.next()).request.path).toContain("widgets");
  });

  it("are looked for at once when told so, past what discovery remembers", async () => {
    let invalidated = 0;
    const { bindings, clock, finder, server, kinds } = bindingsLab({}, () => void invalidated++);
    finder.recheckKinds();
    expect(invalidated).toBe(1);
    await bindings.enable(widget);
    await server.next();
    kinds.set("widget", WIDGETS);
    finder.recheckKinds();
    await clock.advance(0);
    expect((await server.next()).request.path).toContain("widgets");
  });

  it("that are missing stand in nobody's way any more once the hook is gone", async () => {
    const reported: (string | undefined)[] = [];
    const times = { recordFilter: () => {}, recordEvent: () => {} };
    const { bindings } = bindingsLab({
      report: {
        bindingIssueChanged: (_, __, issue) => void reported.push(issue),
        bindingTimes: () => times,
      },
    });
    await bindings.enable(widget);
    bindings.disable(widget);
    expect(reported).toEqual([expect.stringContaining("Widget"), undefined]);
    expect(bindings.issues()).toEqual([]);
  });

  it("that are forbidden hold nobody up, and start when the right is given", async () => {
    const { bindings, clock, server, take } = bindingsLab();
    const of = hookOf("h", [binding()]);
    const ready = bindings.enable(of);
    (await server.next()).fail(new ApiError({ status: 403, reason: "Forbidden", message: "no rights" }));
    await ready;
    expect(bindings.issues()).toMatchObject([{ message: "no rights" }]);
    await clock.advance(1000);
    (await server.next()).send(list(5, [])).end();
    await settle();
    expect([bindings.issues(), take()]).toEqual([[], ["h sync maps"]]);
  });
});

describe("places", () => {
  it("are one watch for each namespace and name", async () => {
    const { bindings, server } = bindingsLab();
    void bindings.enable(
      hookOf("h", [binding({ namespaces: ["n1", "n2", "n1"], names: ["a", "b"], fieldSelector: "x=y" })]),
    );
    const seen: string[] = [];
    for (let count = 0; count < 4; count++) {
      const { path, query } = (await server.next()).request;
      seen.push(`${path.split("/")[4]} ${query?.["fieldSelector"]}`);
    }
    expect(seen.toSorted()).toEqual(
      ["n1", "n2"].flatMap((namespace) => ["a", "b"].map((name) => `${namespace} x=y,metadata.name=${name}`)),
    );
    await settle();
    expect(server.pending).toBe(0);
  });

  it("come and go with the namespaces' labels; objects of a namespace that comes are Added, of one that leaves Deleted", async () => {
    const { bindings, server, take } = bindingsLab();
    const of = hookOf("h", [
      binding({ namespaces: undefined, namespaceLabels: { matchLabels: { on: "1" } } }),
    ]);
    const ready = bindings.enable(of);
    const space = (name: string, version: number): object => ({
      metadata: { name, uid: name, resourceVersion: String(version) },
    });
    const spaces = await server.next();
    expect(spaces.request.query).toMatchObject({ labelSelector: "on=1" });
    spaces.send(list(10, [space("n1", 1)])).end();
    const calls = [await server.next(), await server.next()];
    const watch = calls.find((call) => call.watch);
    const first = calls.find((call) => !call.watch);
    expect(first?.request.path).toContain("/n1/");
    const inSpace = (namespace: string, name: string, version: number): object => ({
      metadata: { name, namespace, uid: namespace + name, resourceVersion: String(version) },
    });
    first?.send(list(10, [inSpace("n1", "a", 1)])).end();
    await ready;
    await server.next();
    bindings.unlock(of);
    watch?.send(added(space("n0", 11)));
    const second = await server.next();
    expect(second.request.path).toContain("/n0/");
    second.send(list(12, [inSpace("n0", "b", 2)])).end();
    await settle();
    expect(take()).toEqual(["h Added n0/b"]);
    expect(names(bindings.snapshots(of).byBindingName("maps"))).toEqual(["b", "a"]);
    watch?.send(removed(space("n1", 13)));
    await settle();
    expect(take()).toEqual(["h Deleted n1/a"]);
    expect(names(bindings.snapshots(of).byBindingName("maps"))).toEqual(["b"]);
    expect(bindings.dump("h")["maps"]?.operations.sinceStart).toEqual({
      count: 3,
      added: 1,
      modified: 0,
      deleted: 1,
      cleaned: 1,
    });
  });
});

describe("lifetime", () => {
  it("ends watches and events with disable", async () => {
    const { bindings, of, watch, take } = await enabled();
    bindings.unlock(of);
    bindings.disable(of);
    watch.send(added(color("c", 11, "x")));
    await settle();
    expect([take(), bindings.countObjects(), bindings.snapshots(of).byBindingName("maps")]).toEqual([
      [],
      [],
      [],
    ]);
    expect(watch.request.signal?.aborted).toBe(true);
  });

  it("lets go of an enable that waits", async () => {
    const { bindings } = bindingsLab();
    const of = hookOf("h", [binding()]);
    const ready = bindings.enable(of);
    bindings.disable(of);
    await expect(ready).resolves.toBeUndefined();
  });

  it("keeps one copy of an object for all bindings, and none after them", async () => {
    const { bindings, serve } = bindingsLab();
    const hooks = ["a", "b"].map((name) => hookOf(name, [binding()]));
    const ready = hooks.map((each) => bindings.enable(each));
    await serve(10, [color("a", 1, "blue")]);
    await Promise.all(ready);
    const [one, two] = hooks.map((each) => bindings.snapshots(each).byBindingName("maps")[0]?.objectText);
    expect(one).toBeDefined();
    expect(one).toBe(two);
  });
});
