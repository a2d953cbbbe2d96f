import { expect, test } from "vitest";
import type { DriftedField } from "../../src/kube/drift/index.ts";
import { digestFieldManagers } from "../../src/kube/drift/index.ts";
import type { RecordedObjects } from "../../src/helm/index.ts";
import { ApiError, CONFIG_MAPS } from "../../src/kube/index.ts";
import type { WatchConsumer, WatchHub, WatchedObject } from "../../src/kube/index.ts";
import { KindWatches } from "../../src/releases/index.ts";
import type { ReleaseObject } from "../../src/releases/index.ts";
import { ReleaseDrift } from "../../src/releases/release-drift.ts";
import { RequestLimit } from "../../src/releases/request-limit.ts";
import { ManualClock, settle } from "../support/clock.ts";
import { kindsOf } from "../support/kinds.ts";
import { keepLog } from "../support/logged.ts";
import type { LoggedLine } from "../support/logged.ts";
import { followedBy, FOLLOWED } from "./quiet-analyzers.ts";

const SECONDS = 1000;
const HOUR = 3600 * SECONDS;

const map = (name: string): ReleaseObject => ({ apiVersion: "v1", kind: "ConfigMap", namespace: "ns", name });
const held = (manager: string, field: string, time = "2026-01-01T00:00:00Z") => ({
  manager,
  operation: "Apply",
  time,
  fieldsV1: { "f:data": { [`f:${field}`]: {} } },
});
const HELMS = held("helm", "a");
const STATUS = { ...held("kubelet", "s"), subresource: "status" };
const field = (name: string): DriftedField => ({ field: name, manager: "editor", at: 0, removed: false });

/** Watch, server and runs of modules are in the hands of the test. */
function driftLab(mode: "off" | "warn" | "repair" = "warn") {
  const clock = new ManualClock();
  const lines: LoggedLine[] = [];
  const logger = keepLog(lines);
  const consumers: WatchConsumer[] = [];
  const hub = {
    subscribe: (_spec: unknown, consumer: WatchConsumer) => {
      consumers.push(consumer);
      return { whenSynced: Promise.resolve(), close: () => {} };
    },
  } as unknown as WatchHub;
  const kinds = new KindWatches({ hub, clock, logger, kinds: kindsOf(clock, () => CONFIG_MAPS) });
  let version = 1;
  const there = new Map<string, WatchedObject>();
  const fields = new Map<string, readonly DriftedField[]>();
  const seen = {
    policy: { mode, ignore: [] as { kind: string; paths: string[] }[] },
    checks: [] as string[],
    repairs: [] as number[],
    records: 0,
    reported: [] as string[],
    found: [] as string[],
    busy: false,
    failure: undefined as Error | undefined,
    /** Of repairs. */
    refusal: undefined as Error | undefined,
    gate: undefined as Promise<void> | undefined,
    notCompared: undefined as string | undefined,
    most: 0,
  };
  let now = 0;
  const inspect = async ({ name }: ReleaseObject) => {
    seen.checks.push(name);
    now += 1;
    seen.most = Math.max(seen.most, now);
    await (seen.gate ?? Promise.resolve());
    now -= 1;
    if (seen.failure !== undefined) throw seen.failure;
    const object = there.get(name);
    if (object === undefined) return undefined;
    return {
      fields: fields.get(name) ?? [],
      ignored: [],
      isShared: false,
      fieldManagers: digestFieldManagers(object),
      notCompared: seen.notCompared,
      repair: () => {
        if (seen.refusal !== undefined) return Promise.reject(seen.refusal);
        seen.repairs.push(clock.now());
        fields.delete(name);
        write(name, [HELMS], false);
        return Promise.resolve(digestFieldManagers(there.get(name) as WatchedObject));
      },
    };
  };
  let revision = 1;
  const drift = new ReleaseDrift({
    module: "one",
    kinds,
    limit: new RequestLimit(clock),
    clock,
    logger,
    getPolicy: () => seen.policy,
    readRecordedObjects: () => {
      seen.records += 1;
      return Promise.resolve({ inspect } as unknown as RecordedObjects);
    },
    mayCheck: () => !seen.busy,
    onDrift: ({ objects, count, issue = "" }) =>
      void seen.reported.push(
        `one ${count}: ${objects.map(({ title, isRepairDelayed }) => `${title}${isRepairDelayed ? "!" : ""}`).join()}${issue}`,
      ),
    onFound: ({ title }, repaired) => void seen.found.push(`${title} ${repaired}`),
  });
  const release = followedBy({ kinds, clock }, { drift });
  const make = (name: string, entries: readonly object[]): WatchedObject => {
    const metadata = {
      name,
      namespace: "ns",
      uid: name,
      resourceVersion: `${(version += 1)}`,
      managedFields: entries,
    };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata } as unknown as WatchedObject;
    there.set(name, object);
    return object;
  };
  function write(name: string, entries: readonly object[], isReported = true): void {
    const object = make(name, entries);
    if (isReported) void consumers[0]?.onApplied(object);
  }
  return {
    clock,
    lines,
    seen,
    fields,
    write: async (name: string, entries: readonly object[]) => {
      write(name, entries);
      await settle();
    },
    deleted: async (name: string) => {
      const object = there.get(name) as WatchedObject;
      there.delete(name);
      void consumers[0]?.onDeleted(object, true);
      await settle();
    },
    set: async (names: readonly string[], isNew = false) => {
      revision += isNew ? 1 : 0;
      release.watchRevision({ ...FOLLOWED, objects: names.map(map), revision });
      await settle();
    },
    /** The objects are followed, and these are there. */
    begin: async (names: readonly string[], entries: readonly object[] = [HELMS]) => {
      release.watchRevision({ ...FOLLOWED, objects: names.map(map), revision });
      await settle();
      for (const name of names) void consumers[0]?.onListed(make(name, entries));
      void consumers[0]?.onSynced("1");
      await settle();
    },
  };
}

const EDITED = [held("helm", "b"), held("editor", "a")];

test("while nothing changes that helm set, nothing is asked", async () => {
  const { seen, begin, write, set } = driftLab();
  await begin(["a", "b"]);
  await write("a", [HELMS, STATUS]);
  await write("a", [HELMS, { ...STATUS, time: "2026-01-01T00:00:09Z" }]);
  await set(["a", "b"]);
  expect([seen.checks, seen.records, seen.reported]).toEqual([[], 0, []]);
  // Another's fields are looked at once, not at each of their writes.
  await write("a", [HELMS, held("leader", "c")]);
  await write("a", [HELMS, held("leader", "c", "2026-01-01T00:00:10Z")]);
  await set(["a", "b"]);
  expect([seen.checks, seen.records]).toEqual([["a"], 1]);
});

test("what others hold at the first sight is looked at", async () => {
  const { seen, begin, fields } = driftLab();
  fields.set("a", [field("data.a")]);
  await begin(["a"], EDITED);
  expect([seen.checks, seen.reported, seen.found]).toEqual([
    ["a"],
    ["one 1: ConfigMap ns/a"],
    ["ConfigMap ns/a false"],
  ]);
});

test("an object whose field managers were all removed is looked at", async () => {
  const { begin, write, seen } = driftLab();
  await begin(["a"]);
  expect(seen.checks).toEqual([]);
  await write("a", []);
  expect(seen.checks).toEqual(["a"]);
});

test("a change is reported once, further writes are looked at, and what is as before is told too", async () => {
  const { seen, begin, write, fields, set } = driftLab();
  await begin(["a"]);
  fields.set("a", [field("data.a")]);
  await write("a", EDITED);
  await write("a", [held("helm", "b"), held("editor", "a", "2026-01-01T00:00:11Z")]);
  expect([seen.checks.length, seen.found.length, seen.reported]).toEqual([2, 1, ["one 1: ConfigMap ns/a"]]);
  fields.delete("a");
  await write("a", [held("helm", "b"), held("editor", "a", "2026-01-01T00:00:12Z")]);
  expect(seen.reported.at(-1)).toBe("one 0: ");
  await set([]);
  expect(seen.repairs).toEqual([]);
});

test("what helm writes in a run is no drift, and what it leaves changed is looked at after it", async () => {
  const { seen, begin, write, fields, set } = driftLab();
  await begin(["a", "b"]);
  fields.set("b", [field("data.a")]);
  await write("b", EDITED);
  seen.busy = true;
  await write("a", [held("helm", "a", "2026-01-01T00:01:00Z")]);
  await write("b", [held("helm", "a", "2026-01-01T00:01:00Z")]);
  expect(seen.checks).toEqual(["b"]);
  seen.busy = false;
  fields.delete("b");
  await set(["a", "b"], true);
  expect([seen.checks, seen.reported.at(-1)]).toEqual([["b", "b"], "one 0: "]);
});

test("a run that begins during a look makes its answer void", async () => {
  const { seen, begin, write, fields, set } = driftLab();
  await begin(["a"]);
  const gate = Promise.withResolvers<void>();
  seen.gate = gate.promise;
  fields.set("a", [field("data.a")]);
  await write("a", EDITED);
  seen.busy = true;
  gate.resolve();
  await settle();
  expect([seen.checks, seen.reported]).toEqual([["a"], []]);
  seen.busy = false;
  await set(["a"], true);
  expect([seen.checks, seen.reported.length]).toEqual([["a", "a"], 1]);
});

test("somebody who keeps changing an object is fought less and less often, and told", async () => {
  const { seen, begin, write, fields, clock } = driftLab("repair");
  await begin(["a"]);
  for (let second = 0; second < 3600; second += 1) {
    if (!fields.has("a")) {
      fields.set("a", [field("data.a")]);
      await write("a", EDITED);
    }
    await clock.advance(SECONDS);
  }
  expect(seen.repairs.length).toBeGreaterThan(15);
  expect(seen.repairs.length).toBeLessThan(30);
  const gaps = seen.repairs.slice(1).map((at, index) => at - (seen.repairs[index] ?? 0));
  expect(gaps.at(-1)).toBeGreaterThanOrEqual(600 * SECONDS);
  expect(seen.reported).toContain("one 1: ConfigMap ns/a!");
  expect(seen.found).toContain("ConfigMap ns/a true");
  // After a calm time all is as at first.
  fields.delete("a");
  await write("a", [HELMS]);
  await clock.advance(HOUR);
  const before = seen.repairs.length;
  fields.set("a", [field("data.a")]);
  await write("a", EDITED);
  expect(seen.repairs.length).toBe(before + 1);
});

test("what is changed again after it was put back stays told until the fight is over", async () => {
  const { seen, begin, write, fields, clock } = driftLab("repair");
  await begin(["a"]);
  const change = async (): Promise<void> => {
    fields.set("a", [field("data.a")]);
    await write("a", EDITED);
  };
  await change();
  expect(seen.reported).toEqual([]);
  await clock.advance(4 * SECONDS);
  await change();
  expect([seen.repairs.length, seen.reported]).toEqual([2, ["one 1: ConfigMap ns/a"]]);
  await clock.advance(4 * SECONDS);
  await change();
  expect(seen.reported).toHaveLength(1);
  // Of a slow one as long as twice its period.
  await clock.advance(9 * SECONDS);
  await change();
  await clock.advance(17 * SECONDS);
  expect([seen.repairs.length, seen.reported]).toEqual([4, ["one 1: ConfigMap ns/a"]]);
  await clock.advance(SECONDS);
  expect(seen.reported).toEqual(["one 1: ConfigMap ns/a", "one 0: "]);
  expect(clock.timers).toBe(0);
});

test("a server that fails is asked less and less often, and the log has it once", async () => {
  const { seen, begin, write, fields, clock, lines } = driftLab();
  await begin(["a"]);
  fields.set("a", [field("data.a")]);
  seen.failure = new ApiError({ status: 500, reason: "InternalError", message: "no dry run" });
  await write("a", EDITED);
  await clock.advance(600 * SECONDS);
  expect(seen.checks.length).toBeGreaterThan(50);
  expect(seen.checks.length).toBeLessThan(80);
  expect(lines.filter(([, message]) => message.includes("cannot be compared"))).toHaveLength(1);
  seen.failure = undefined;
  await clock.advance(10 * SECONDS);
  // Meanwhile it is not known whether it has drifted.
  const unknown = "one 0: ConfigMap ns/a cannot be compared with its release: no dry run";
  expect(seen.reported).toEqual([unknown, "one 1: ConfigMap ns/a"]);
});

test("a part that cannot be compared is named, and hides no drift of the others", async () => {
  const { seen, begin, write, fields, clock } = driftLab();
  await begin(["a"]);
  seen.notCompared = "data (why)";
  await write("a", EDITED);
  fields.set("a", [field("data.a")]);
  await write("a", [HELMS]);
  await clock.advance(HOUR);
  const issue = "ConfigMap ns/a is compared with its release except for data (why)";
  expect(seen.reported).toEqual([`one 0: ${issue}`, `one 1: ConfigMap ns/a${issue}`]);
});

test("what the server refuses is asked again when it changes", async () => {
  const { seen, begin, write, clock } = driftLab();
  await begin(["a"]);
  seen.failure = new ApiError({ status: 422, reason: "Invalid", message: "no" });
  await write("a", EDITED);
  await clock.advance(HOUR);
  expect(seen.checks).toEqual(["a"]);
  seen.failure = undefined;
  await write("a", [HELMS]);
  await clock.advance(HOUR);
  expect(seen.checks).toEqual(["a", "a"]);
});

test("what is put back at once is reported by its Event alone, and as drift where the server refuses that", async () => {
  const { seen, begin, write, fields } = driftLab("repair");
  await begin(["a"]);
  fields.set("a", [field("data.a")]);
  await write("a", EDITED);
  expect([seen.reported, seen.found]).toEqual([[], ["ConfigMap ns/a true"]]);
  seen.refusal = new ApiError({ status: 403, reason: "Forbidden", message: "no" });
  fields.set("a", [field("data.a")]);
  await write("a", EDITED);
  const why = "ConfigMap ns/a cannot be compared with its release: no";
  expect(seen.reported).toEqual([`one 1: ConfigMap ns/a${why}`]);
});

test("an object that is written while it is put back is looked at again, and the log says nothing", async () => {
  const { seen, begin, write, fields, clock, lines } = driftLab("repair");
  await begin(["a"]);
  fields.set("a", [field("data.a")]);
  seen.failure = new ApiError({ status: 409, reason: "Conflict", message: "modified" });
  await write("a", EDITED);
  await clock.advance(SECONDS);
  expect([seen.repairs, lines]).toEqual([[], []]);
  seen.failure = undefined;
  await clock.advance(10 * SECONDS);
  expect(seen.repairs).toHaveLength(1);
});

test("objects of a release are looked at one after the other, at a limited rate", async () => {
  const { seen, begin, clock } = driftLab();
  const names = Array.from({ length: 300 }, (_, index) => `n${index}`);
  await begin(names, EDITED);
  await clock.advance(2 * SECONDS);
  expect(seen.checks.length).toBeGreaterThanOrEqual(100);
  expect(seen.checks.length).toBeLessThanOrEqual(145);
  expect(seen.most).toBe(1);
  await clock.advance(60 * SECONDS);
  expect([new Set(seen.checks).size, seen.checks.length, seen.records]).toEqual([300, 300, 1]);
});

test("an object that goes, or is another's now, has not drifted", async () => {
  const { seen, begin, write, fields, deleted } = driftLab();
  await begin(["a"]);
  fields.set("a", [field("data.a")]);
  await write("a", EDITED);
  await deleted("a");
  expect(seen.reported).toEqual(["one 1: ConfigMap ns/a", "one 0: "]);
});

test("switched off, nobody looks, and what was reported is taken back", async () => {
  const { seen, begin, write, fields, set } = driftLab();
  await begin(["a"]);
  fields.set("a", [field("data.a")]);
  await write("a", EDITED);
  seen.policy = { mode: "off", ignore: [] };
  await set(["a"]);
  await write("a", [HELMS]);
  expect([seen.checks, seen.reported.at(-1)]).toEqual([["a"], "one 0: "]);
  seen.policy = { mode: "repair", ignore: [] };
  await write("a", EDITED);
  await set(["a"]);
  expect(seen.repairs).toHaveLength(1);
});
