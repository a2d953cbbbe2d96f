import { describe, expect, it } from "vitest";

import type { WatchConsumer, WatchedObject } from "../../../src/kube/index.ts";
import { ApiError, CONFIG_MAPS, ConnectionError, ObjectStore, WatchHub } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";
import type { Call } from "./watch-server.ts";
import { WatchServer, added, bookmark, configMap, failure, list, modified, removed } from "./watch-server.ts";

const SPEC = { resource: CONFIG_MAPS, namespace: "ns" };

interface Versioned {
  readonly resourceVersion: string;
}

const toStored = ({ metadata: { resourceVersion = "" } }: WatchedObject): Versioned => ({ resourceVersion });

function lab(compareMs?: number) {
  const server = new WatchServer();
  const clock = new ManualClock();
  const hub = new WatchHub({ client: server, clock, logger: silentLogger, random: () => 0, compareMs });
  return { server, clock, hub };
}

/** Records what is reported to it: `+a@1` listed, `=1` synced, `>a@2` applied, `-a` deleted, `~a@3` deleted as a list at 3 told, `!` issues. */
function listener(rank = ""): { seen: string[]; take: () => string; consumer: WatchConsumer } {
  const seen: string[] = [];
  const at = (object: { metadata: { name: string; resourceVersion?: string } }): string =>
    `${object.metadata.name}@${object.metadata.resourceVersion}`;
  const consumer: WatchConsumer = {
    rank,
    onListed: (object) => void seen.push(`+${at(object)}`),
    onSynced: (version) => void seen.push(`=${version}`),
    onApplied: (object) => void seen.push(`>${at(object)}`),
    onDeleted: (object, complete) => void seen.push(complete ? `-${object.metadata.name}` : `~${at(object)}`),
    onError: (error) => void seen.push(error === undefined ? "ok" : `!${error.message}`),
  };
  const take = (): string => seen.splice(0).join(" ");
  return { seen, take, consumer };
}

async function started(objects = [configMap("a", 1), configMap("b", 2)]) {
  const all = lab();
  const one = listener();
  const subscription = all.hub.subscribe(SPEC, one.consumer);
  (await all.server.next()).send(list(10, objects)).end();
  await subscription.whenSynced;
  const watch = await all.server.next();
  one.take();
  return { ...all, one, subscription, watch: watch.open() };
}

describe("a watch", () => {
  it("lists in pages, then watches from the list's version with bookmarks", async () => {
    const { server, hub } = lab();
    const one = listener();
    hub.subscribe(SPEC, one.consumer);
    const first = await server.next();
    expect(first.request.query).toMatchObject({ limit: 500 });
    first.send(list(10, [configMap("a", 1)], "more")).end();
    const second = await server.next();
    expect(second.request.query).toMatchObject({ continue: "more" });
    second.send(list(10, [configMap("b", 2)])).end();
    const watch = await server.next();
    expect(watch.request.query).toMatchObject({
      watch: true,
      allowWatchBookmarks: true,
      resourceVersion: "10",
      timeoutSeconds: 240,
    });
    expect(one.take()).toBe("+a@1 +b@2 =10");
  });

  it("fills in kind and apiVersion, and drops managedFields unless they are asked for", async () => {
    const { server, hub } = lab();
    const got: object[] = [];
    const consumer: WatchConsumer = { ...listener().consumer, onListed: (object) => void got.push(object) };
    const item = { metadata: { name: "a", managedFields: [{}] } };
    for (const keepManagedFields of [false, true]) {
      const { whenSynced: synced } = hub.subscribe({ ...SPEC, keepManagedFields }, consumer);
      (await server.next()).send(list(1, [item])).end();
      await synced;
      (await server.next()).open();
    }
    expect(got).toEqual([
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } },
      { apiVersion: "v1", kind: "ConfigMap", ...item },
    ]);
  });

  it("keeps integers above 2^53", async () => {
    const { server, hub } = lab();
    const got: unknown[] = [];
    const object = (each: object): void => void got.push((each as { size?: number }).size);
    const { whenSynced: synced } = hub.subscribe(SPEC, { ...listener().consumer, onListed: object });
    const sent = list(1, [{ ...configMap("a", 1), size: 0 }]).replace('"size":0', '"size":9007199254740993');
    (await server.next()).send(sent).end();
    await synced;
    expect(String(got)).toBe("9007199254740993");
  });

  it("delivers events in order and goes on after a clean close from the last version, bookmarks included", async () => {
    const { server, clock, one, watch } = await started();
    watch.send(
      added(configMap("c", 11)),
      modified(configMap("a", 12)),
      removed(configMap("b", 13)),
      bookmark(20),
    );
    await settle();
    expect(one.take()).toBe(">c@11 >a@12 -b");
    await clock.advance(5000);
    watch.end();
    expect((await server.next()).request.query).toMatchObject({ resourceVersion: "20" });
    expect(one.take()).toBe("");
  });

  describe("that has worked for an hour", () => {
    /** Ends the watch after an hour, at version 20, and returns the comparison that follows. */
    async function compared() {
      const all = await started();
      all.watch.send(modified(configMap("a", 12)), bookmark(20));
      await settle();
      // Bytes in between, so that the watch does not count as silent.
      for (let minutes = 0; minutes < 60; minutes += 2) {
        await all.clock.advance(120_000);
        all.watch.send(bookmark(20));
      }
      all.one.take();
      all.watch.end();
      const comparison = await all.server.next();
      expect(comparison.request).toMatchObject({
        query: { resourceVersion: "20", resourceVersionMatch: "Exact", limit: 500 },
        accept: expect.stringContaining("PartialObjectMetadataList") as string,
      });
      return { ...all, comparison };
    }

    it("is compared with the server's objects, and goes on", async () => {
      const { server, one, comparison } = await compared();
      comparison.send(list(20, [configMap("a", 12), configMap("b", 2)])).end();
      const watch = await server.next();
      expect([watch.watch, watch.request.query?.["resourceVersion"]]).toEqual([true, "20"]);
      // The next comparison is not due yet.
      // Consumers may know more, from stale answers to requests of their own.
      expect(one.take()).toBe("=20");
    });

    it.each([
      ["a deletion", [configMap("a", 12)], "~b@21"],
      ["a change", [configMap("a", 12), configMap("b", 13)], ">b@13"],
      ["a new object", [configMap("a", 12), configMap("b", 2), configMap("c", 14)], ">c@14"],
    ])("lists again if the watch has lost %s", async (_, objects, delivered) => {
      const { server, one, comparison } = await compared();
      comparison.send(list(20, objects)).end();
      const relist = await server.next();
      expect([relist.watch, relist.request.query?.["resourceVersion"]]).toEqual([false, undefined]);
      relist.send(list(21, objects)).end();
      expect((await server.next()).request.query).toMatchObject({ watch: true, resourceVersion: "21" });
      expect(one.take()).toBe(`${delivered} =21`);
    });

    it.each([
      ["a version that has expired", new ApiError({ status: 410, reason: "Expired", message: "too old" })],
      ["a server that does not answer", new ConnectionError("ECONNRESET", "cut")],
      ["a server without such lists", new ApiError({ status: 400, reason: "BadRequest", message: "no" })],
    ])("learns nothing from %s", async (_, error) => {
      const { server, one, comparison } = await compared();
      comparison.fail(error);
      expect((await server.next()).request.query).toMatchObject({ watch: true, resourceVersion: "20" });
      expect(one.take()).toBe("");
    });
  });

  it.each([
    ["10s", 10_000, 10],
    ["1ms", 1, 2],
    ["0, which is never", 0, 240],
  ])("ends soon after a comparison is due: --watch-check-interval=%s", async (_, compareMs, seconds) => {
    const { server, clock, hub } = lab(compareMs);
    hub.subscribe(SPEC, listener().consumer);
    (await server.next()).send(list(10, [])).end();
    const watch = await server.next();
    expect(watch.request.query).toMatchObject({ timeoutSeconds: seconds });
    watch.open();
    await clock.advance(10_000);
    watch.end();
    expect((await server.next()).watch).toBe(compareMs === 0);
  });

  it("ignores the late deletion of an object that was created again", async () => {
    const { one, watch } = await started();
    const metadata = { name: "a", namespace: "ns", uid: "another", resourceVersion: "13" };
    watch.send(modified({ metadata }));
    watch.send(removed(configMap("a", 12)), modified(configMap("b", 14)));
    await settle();
    expect(one.take()).toBe(">a@13 >b@14");
  });

  it.each(['{"ok":true}', '{"kind":"ConfigMap"}', "{}"])(
    "forgets nothing if a new list is no list, but %s",
    async (answer) => {
      const { server, one, watch, clock } = await started();
      watch.send(failure(410, "Expired"));
      (await server.next()).send(answer).end();
      await clock.advance(1000);
      const checked = await server.next();
      checked.send(answer).end();
      await clock.advance(1000);
      expect(one.take()).toMatch(/^(?:!the answer is no list; a proxy may be in between ?)+$/);
    },
  );

  it("reports a page that is no watch, again and again", async () => {
    const { server, one, watch, clock } = await started();
    await clock.advance(5000);
    watch.end();
    for (let tries = 0; tries < 2; tries += 1) {
      (await server.next()).send("<html>Log in</html>").end();
      await clock.advance(1000);
      // The server is queried for its newest version.
      (await server.next()).send(list(20, [])).end();
    }
    expect(one.take()).toBe("!the watch ended in the middle of an event");
  });

  it("drops half an event at a cut; its whole follows from the last version", async () => {
    const { server, clock, one, watch } = await started();
    const event = JSON.stringify(modified(configMap("b", 12)));
    watch.send(modified(configMap("a", 11)), event.slice(0, 40));
    await settle();
    watch.fail(new ConnectionError("ECONNRESET", "cut"));
    await clock.advance(200);
    (await server.next()).send(list(11, [])).end();
    const again = await server.next();
    expect(again.request.query).toMatchObject({ resourceVersion: "11" });
    again.send(`${event}\n`);
    await settle();
    expect(one.take()).toBe(">a@11 >b@12");
  });

  it("gives up an event and an object of a list that do not end, reports that, and tries seldom", async () => {
    const { server, clock, one, watch } = await started();
    const piece = '"'.padEnd(1024 * 1024);
    const sendEndless = (call: Call, start: string): void => {
      call.send(start);
      for (let sent = 0; sent < 17; sent += 1) call.send(piece);
    };
    sendEndless(watch, '{"type":"ADDED","object":{"a":');
    await settle();
    const reported = "!the server sent an object that is larger than 16 MiB";
    expect(one.take()).toBe(reported);
    await clock.advance(1000);
    (await server.next()).send(list(11, [])).end();
    (await server.next()).send(failure(410, "Expired"));
    await settle();
    one.take();
    await clock.advance(1000);
    sendEndless(await server.next(), '{"kind":"ConfigMapList","items":[{"a":');
    await settle();
    expect(one.take()).toBe(reported);
    await clock.advance(999);
    expect(server.pending).toBe(0);
  });

  it("puts an event together that comes in many chunks", async () => {
    const { one, watch } = await started();
    const event = `${JSON.stringify(modified(configMap("a", 11, { data: { x: "é".repeat(100) } })))}\n`;
    watch.send(...event.split(""));
    await settle();
    expect(one.take()).toBe(">a@11");
  });

  it.each([
    ["as an HTTP answer", false],
    ["as an ERROR frame", true],
  ])("lists again after 410 %s and reports only the differences", async (_, frame) => {
    const { server, one, watch } = await started([configMap("a", 1), configMap("b", 2), configMap("c", 3)]);
    const expired = new ApiError({ status: 410, reason: "Expired", message: "too old" });
    if (frame) watch.send(failure(410, "Expired"));
    else watch.fail(expired);
    const relist = await server.next();
    expect(relist.watch).toBe(false);
    const remade = {
      ...configMap("b", 30),
      metadata: { name: "b", namespace: "ns", uid: "other", resourceVersion: "30" },
    };
    relist.send(list(40, [configMap("a", 1), remade, configMap("d", 31)])).end();
    expect((await server.next()).request.query).toMatchObject({ resourceVersion: "40" });
    expect(one.take()).toBe("~b@30 >b@30 >d@31 ~c@40 =40");
  });

  it("does not report a version that has expired when the connection is lost, unless it expires again", async () => {
    const { server, clock, one, watch } = await started([configMap("a", 1)]);
    watch.fail(new ConnectionError("ESILENT", "no bookmark for a while"));
    await clock.advance(200);
    (await server.next()).send(list(10, [])).end();
    (await server.next()).send(failure(410, "Expired"));
    await clock.advance(1000);
    const relist = await server.next();
    expect(one.take()).toBe("");
    relist.send(list(40, [configMap("a", 1)])).end();
    (await server.next()).send(failure(410, "Expired"));
    await settle();
    expect(one.take()).toBe("=40 !Expired it is");
  });

  it("reports the end of a new list also to a consumer whose own list is older", async () => {
    const { server, hub, watch } = await started();
    const late = listener();
    const { whenSynced } = hub.subscribe(SPEC, late.consumer);
    const join = await server.next();
    watch.send(failure(410, "Expired"));
    (await server.next()).send(list(40, [configMap("a", 1)])).end();
    await server.next();
    expect(late.take()).toBe("");
    join.send(list(30, [configMap("a", 1)])).end();
    await whenSynced;
    await settle();
    expect(late.take()).toBe("+a@1 =30 ~b@40 =40");
  });

  it("asks for the newest version after a failure, without labels, and for one object only", async () => {
    const { server, hub, clock } = lab();
    hub.subscribe({ ...SPEC, labelSelector: "a=b", fieldSelector: "metadata.name=c" }, listener().consumer);
    (await server.next()).send(list(10, [])).end();
    (await server.next()).fail(new ConnectionError("ECONNRESET", "cut"));
    await clock.advance(200);
    const { watch, request } = await server.next();
    expect(watch).toBe(false);
    expect(request.query).toEqual({ fieldSelector: "metadata.name=c", limit: 1 });
  });

  // What the operator knows is from versions up to 20. The server's newest is older, or has leapt.
  it.each([
    ["without a leap of its versions", 15],
    ["with a leap of its versions", 1_000_000_015],
  ])("believes a server that was put back to an earlier state %s", async (_, newest) => {
    const { server, clock, hub, one, watch } = await started([configMap("a", 5), configMap("b", 6)]);
    watch.send(modified(configMap("a", 11)), removed(configMap("b", 12)), added(configMap("c", 20)));
    const late = listener();
    const joined = hub.subscribe(SPEC, { ...late.consumer, onEtcdRestored: () => void late.seen.push("<") });
    (await server.next()).send(list(20, [configMap("a", 11), configMap("c", 20)])).end();
    await joined.whenSynced;
    one.take();
    late.take();
    watch.fail(new ConnectionError("ECONNREFUSED", "gone"));
    await clock.advance(200);
    (await server.next()).send(list(newest, [])).end();
    (await server.next()).send(list(newest, [configMap("a", 5), configMap("b", 6)])).end();
    const again = await server.next();
    expect(again.request.query).toMatchObject({ resourceVersion: String(newest) });
    again.send(modified(configMap("a", newest + 1)));
    await settle();
    expect(one.take()).toBe(`>a@5 >b@6 ~c@${newest} =${newest} >a@${newest + 1}`);
    expect(late.take()).toBe(`< >a@5 >b@6 ~c@${newest} =${newest} >a@${newest + 1}`);
  });

  it("believes a server that was put back to a state before what only an answer showed", async () => {
    const { server, clock, hub } = lab();
    const one = listener();
    let answered = "8";
    const onEtcdRestored = (): void => void one.seen.push("<");
    const getNewestVersion = (): string => answered;
    const { whenSynced } = hub.subscribe(SPEC, { ...one.consumer, onEtcdRestored, getNewestVersion });
    (await server.next()).send(list(10, [configMap("a", 5)])).end();
    await whenSynced;
    answered = "30";
    (await server.next()).fail(new ConnectionError("ECONNREFUSED", "gone"));
    one.take();
    await clock.advance(200);
    (await server.next()).send(list(20, [])).end();
    answered = "";
    (await server.next()).send(list(20, [configMap("a", 15)])).end();
    (await server.next()).open();
    expect(one.take()).toBe("< >a@15 =20");
  });

  // A watch that ends well, and a first list after an answer, can meet such a server without a failure before.
  it.each([
    ["without a leap of its versions", 8],
    ["with a leap of its versions", 1_000_000_008],
  ])("believes a list of a server that was put back to an earlier state %s", async (_, newest) => {
    const { server, hub, one, watch } = await started([configMap("a", 5), configMap("b", 6)]);
    watch.send(modified(configMap("a", 11)), failure(410, "Expired"));
    for (let count = 0; count < 2; count++)
      (await server.next()).send(list(newest, [configMap("a", 7)])).end();
    (await server.next()).open();
    expect(one.take()).toBe(`>a@11 >a@7 ~b@${newest} =${newest}`);
    const late = { resource: CONFIG_MAPS, namespace: "other" };
    const store = new ObjectStore<Versioned>({ toStored });
    await store.fetchObject("ns/a", () => Promise.resolve({ resourceVersion: "11" }));
    const { whenSynced } = store.watch(hub, late);
    for (let count = 0; count < 2; count++)
      (await server.next()).send(list(newest, [configMap("a", 7)])).end();
    await whenSynced;
    expect(store.get("ns/a")).toEqual({ resourceVersion: "7" });
  });

  it("lets a first list that begins again show an earlier state, as after a restore meanwhile", async () => {
    const { server, clock, hub } = lab();
    const store = new ObjectStore<Versioned>({ toStored });
    const { whenSynced } = store.watch(hub, SPEC);
    (await server.next()).send(list(20, [configMap("a", 11), configMap("b", 20)], "more")).end();
    (await server.next()).fail(new ConnectionError("ECONNREFUSED", "gone"));
    await clock.advance(200);
    (await server.next()).send(list(10, [configMap("a", 5)])).end();
    await whenSynced;
    expect([...store.entries()]).toEqual([["ns/a", { resourceVersion: "5" }]]);
  });

  it("drops what a late consumer has not taken yet of a list from before a restore", async () => {
    const { server, clock, hub, watch } = await started([configMap("c0", 5)]);
    const gates: (() => void)[] = [];
    const late = listener();
    const onListed: WatchConsumer["onListed"] = (object) => {
      void late.consumer.onListed(object);
      return new Promise((resolve) => gates.push(resolve));
    };
    hub.subscribe(SPEC, { ...late.consumer, onListed, onEtcdRestored: () => void late.seen.push("<") });
    const items = Array.from({ length: 70 }, (_, index) => configMap(`c${index}`, index + 100));
    (await server.next()).send(list(300, items)).end();
    await settle();
    watch.send(added(configMap("d", 301)));
    await settle();
    watch.fail(new ConnectionError("ECONNREFUSED", "gone"));
    await clock.advance(200);
    (await server.next()).send(list(10, [])).end();
    const relist = await server.next();
    for (const open of gates.splice(0)) open();
    await settle();
    await clock.advance(0);
    expect(late.seen.slice(-2)).toEqual(["+c63@163", "<"]);
    relist.send(list(10, [configMap("c0", 5)])).end();
  });

  it("starts the list over when the server forgot its second page, at last without pages", async () => {
    const { server, clock, hub } = lab();
    const one = listener();
    const { whenSynced: synced } = hub.subscribe(SPEC, one.consumer);
    for (const round of [1, 2]) {
      (await server.next()).send(list(10, [configMap("a", 1)], "more")).end();
      (await server.next()).fail(new ApiError({ status: 410, reason: "Expired", message: `round ${round}` }));
      await clock.advance(1000);
    }
    const whole = await server.next();
    expect(whole.request.query?.["limit"]).toBeUndefined();
    whole.send(list(11, [configMap("b", 2)])).end();
    await synced;
    expect(one.take()).toBe("+a@1 +a@1 +b@2 ~a@11 =11");
  });

  it("lists again for a late consumer when the server was put back to an earlier state meanwhile", async () => {
    const { server, clock, hub, watch } = await started([configMap("a", 5), configMap("b", 6)]);
    const late = listener();
    hub.subscribe(SPEC, { ...late.consumer, onEtcdRestored: () => void late.seen.push("<") });
    const lost = await server.next();
    lost.send(list(20, [configMap("a", 11), configMap("c", 20)], "more"));
    await settle();
    watch.send(modified(configMap("a", 11)));
    await settle();
    watch.fail(new ConnectionError("ECONNREFUSED", "gone"));
    await clock.advance(200);
    (await server.next()).send(list(10, [])).end();
    await clock.advance(0);
    const objects = [configMap("a", 5), configMap("b", 6)];
    for (const call of [await server.next(), await server.next()]) call.send(list(10, objects)).end();
    lost.end();
    await settle();
    expect(late.take()).toBe("+a@11 +c@20 < +a@5 +b@6 ~c@10 =10");
  });

  it("waits as long as 429 says", async () => {
    const { server, clock, watch } = await started();
    watch.fail(new ApiError({ status: 429, reason: "TooManyRequests", message: "busy", retryAfterMs: 7000 }));
    await clock.advance(6900);
    expect(server.pending).toBe(0);
    await clock.advance(200);
    expect(server.pending).toBe(1);
  });

  it("counts failures by class, and lists that had to be done again", async () => {
    const { server, clock, hub } = lab();
    const reported: string[] = [];
    const next = async (): Promise<Call> => {
      await clock.advance(10_000);
      return server.next();
    };
    hub.observer = {
      onFailure: (type) => void reported.push(type),
      onRelist: ({ resource }) => void reported.push(`relisted ${resource.plural}`),
    };
    hub.subscribe(SPEC, listener().consumer);
    (await next()).fail(new ApiError({ status: 500, reason: "InternalError", message: "no" }));
    (await next()).send(list(1, [])).end();
    (await next()).fail(new ConnectionError("ECONNRESET", "cut"));
    (await next()).send(list(1, [])).end();
    (await next()).send(failure(410, "Expired"));
    (await next()).send(list(5, [])).end();
    expect(reported).toEqual(["fail", "unexpected-eof", "expired", "relisted configmaps"]);
    (await server.next()).end();
    await next();
    expect(reported.slice(4)).toEqual(["eof"]);
  });

  it("backs off from 0.2 s to 10 s under a storm of errors, and says so until it works", async () => {
    const { server, clock, hub, one, watch } = await started();
    expect(hub.countWatches()).toEqual({ open: 1, broken: 0 });
    const storm = new ApiError({ status: 500, reason: "InternalError", message: "storm" });
    let call = watch;
    for (const delay of [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]) {
      call.fail(storm);
      await clock.advance(delay - 1);
      expect(server.pending).toBe(0);
      await clock.advance(1);
      call = await server.next();
    }
    expect(one.take()).toContain("!storm");
    expect(hub.countWatches()).toEqual({ open: 0, broken: 1 });
    call.send(list(10, [])).end();
    call = await server.next();
    call.send(modified(configMap("a", 11)));
    await settle();
    expect(one.take()).toBe("ok >a@11");
    expect(hub.countWatches()).toEqual({ open: 1, broken: 0 });
  });

  it("asks seldom while access is forbidden, and reports why", async () => {
    const { server, clock, hub } = lab();
    const one = listener();
    hub.subscribe(SPEC, one.consumer);
    for (const delay of [1000, 2000, 4000, 8000, 16_000, 30_000]) {
      (await server.next()).fail(new ApiError({ status: 403, reason: "Forbidden", message: "no rights" }));
      await clock.advance(delay - 1);
      expect(server.pending).toBe(0);
      await clock.advance(1);
    }
    (await server.next()).send(list(1, [])).end();
    await settle();
    expect(one.take()).toBe(`${"!no rights ".repeat(6)}=1 ok`);
  });

  it("gives up a connection that is silent for 150 s", async () => {
    const { server, clock, one, watch } = await started();
    await clock.advance(100_000);
    watch.send(bookmark(15));
    await clock.advance(149_000);
    expect(server.pending).toBe(0);
    await clock.advance(1500);
    (await server.next()).send(list(15, [])).end();
    expect((await server.next()).request.query).toMatchObject({ resourceVersion: "15" });
    expect(one.take()).toBe("");
  });

  it("does not spin when the server closes watches at once", async () => {
    const { server, clock, watch } = await started();
    watch.end();
    await settle();
    expect(server.pending).toBe(0);
    await clock.advance(200);
    (await server.next()).end();
    await clock.advance(399);
    expect(server.pending).toBe(0);
  });
});

describe("the hub", () => {
  it("opens one watch for equal specs, serves by rank, and closes with the last consumer", async () => {
    const { server, hub } = lab();
    const order: string[] = [];
    const spy = (rank: string): WatchConsumer => ({
      ...listener(rank).consumer,
      onApplied: () => void order.push(rank),
    });
    const [two, one] = [hub.subscribe(SPEC, spy("b")), hub.subscribe({ ...SPEC }, spy("a"))];
    (await server.next()).send(list(10, [])).end();
    await Promise.all([one.whenSynced, two.whenSynced]);
    const watch = await server.next();
    watch.send(added(configMap("a", 11)));
    await settle();
    expect(order).toEqual(["a", "b"]);
    expect(server.pending).toBe(0);
    two.close();
    two.close();
    expect(watch.request.signal?.aborted).toBe(false);
    one.close();
    expect(watch.request.signal?.aborted).toBe(true);
  });

  it("gives a late consumer its own list and then what changed after it, nothing twice", async () => {
    const { server, hub, one, watch } = await started();
    const late = listener();
    const subscription = hub.subscribe(SPEC, late.consumer);
    const joining = await server.next();
    watch.send(modified(configMap("a", 11)), removed(configMap("b", 12)), added(configMap("d", 14)));
    await settle();
    joining.send(list(12, [configMap("a", 11), configMap("c", 12)])).end();
    await subscription.whenSynced;
    watch.send(modified(configMap("a", 15)));
    await settle();
    expect(one.take()).toBe(">a@11 -b >d@14 >a@15");
    expect(late.take()).toBe("+a@11 +c@12 =12 >d@14 >a@15");
  });

  it("drops live events that lag behind a late consumer's list", async () => {
    const { server, hub, one, watch } = await started();
    const late = listener();
    const { whenSynced: synced } = hub.subscribe(SPEC, late.consumer);
    (await server.next()).send(list(20, [configMap("a", 19)])).end();
    await synced;
    watch.send(
      modified(configMap("a", 11)),
      modified(configMap("a", 19)),
      removed(configMap("b", 20)),
      added(configMap("c", 21)),
    );
    await settle();
    expect(one.take()).toBe(">a@11 >a@19 -b >c@21");
    expect(late.take()).toBe("+a@19 =20 >c@21");
  });

  it("takes a consumer that comes during the first list in after it", async () => {
    const { server, hub } = lab();
    const [one, late] = [listener(), listener()];
    hub.subscribe(SPEC, one.consumer);
    const first = await server.next();
    const { whenSynced: synced } = hub.subscribe(SPEC, late.consumer);
    first.send(list(10, [configMap("a", 1)])).end();
    const calls = [await server.next(), await server.next()];
    calls.find((call) => call.watch)?.send(added(configMap("b", 12)));
    calls
      .find((call) => !call.watch)
      ?.send(list(11, [configMap("a", 1)]))
      .end();
    await synced;
    await settle();
    expect(one.take()).toBe("+a@1 =10 >b@12");
    expect(late.take()).toBe("+a@1 =11 >b@12");
  });

  it("keeps the others going when one consumer throws", async () => {
    const { server, hub } = lab();
    const good = listener("z");
    const bad: WatchConsumer = {
      ...listener().consumer,
      onListed: () => {
        throw new Error("bug");
      },
    };
    hub.subscribe(SPEC, bad);
    hub.subscribe(SPEC, good.consumer);
    (await server.next()).send(list(10, [configMap("a", 1), configMap("b", 2)])).end();
    await settle();
    expect(good.take()).toBe("+a@1 +b@2 =10");
  });

  it("takes what a consumer answers for a promise only if it is one", async () => {
    const server = new WatchServer();
    const errors: string[] = [];
    const logger = { ...silentLogger, error: (message: string) => void errors.push(message) };
    const hub = new WatchHub({ client: server, clock: new ManualClock(), logger, random: () => 0 });
    const one = listener();
    const synced: () => void = () => one.seen.push("=") > 0;
    hub.subscribe(SPEC, { ...one.consumer, onSynced: synced });
    (await server.next()).send(list(10, [])).end();
    await settle();
    expect(one.take()).toBe("=");
    expect(errors).toEqual([]);
  });

  it("waits with reading on when too many answers of a consumer are outstanding", async () => {
    const { server, hub } = lab();
    const gates: (() => void)[] = [];
    let taken = 0;
    const object = (): Promise<void> => {
      taken += 1;
      return new Promise((resolve) => gates.push(resolve));
    };
    const { whenSynced: synced } = hub.subscribe(SPEC, { ...listener().consumer, onListed: object });
    const items = Array.from({ length: 200 }, (_, index) => configMap(`c${index}`, index + 1));
    (await server.next()).send(list(300, items)).end();
    await settle();
    expect(taken).toBe(64);
    for (let open = gates.shift(); open !== undefined; open = gates.shift()) {
      open();
      await settle();
    }
    await synced;
    expect(taken).toBe(200);
  });
});
