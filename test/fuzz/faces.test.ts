import { gzipSync } from "node:zlib";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { decodeRelease, changeEncodedRecord, summarize } from "../../src/helm/release/record.ts";
import { parseHookConfig } from "../../src/hooks/config/hook-config.ts";
import { renderContext } from "../../src/hooks/bindings/index.ts";
import { OutputError, parseMetrics, parseObjectOperations } from "../../src/hooks/index.ts";
import { OutputLog } from "../../src/hooks/output/output-log.ts";
import { DepthError, createLogger } from "../../src/base/index.ts";
import { HookMetricError, HookMetrics } from "../../src/report/metrics/index.ts";
import {
  PatchError,
  applyJsonPatch,
  toStoredOperations,
  parseConfigMap,
  parsePatch,
  replayStoredPatches,
} from "../../src/values/index.ts";
import { added, configMap } from "../kube/watch/watch-server.ts";
import { ManualClock, settle } from "../support/clock.ts";
import { openFace } from "../support/faces.ts";
import type { FaceName, OpenFace } from "../support/faces.ts";
import { HOSTILE } from "../support/hostile-requests.ts";
import { exchange, get, statusOf } from "../support/raw-http.ts";
import { bindingsLab } from "../hooks/bindings/kubernetes/bindings-lab.ts";
import { binding, hookOf } from "../hooks/build.ts";
import { feedAll, RUNS } from "./feed.ts";
import type { Face } from "./feed.ts";
import { mutated } from "./mutate.ts";

const RULES = ["m", "global"];

const adapters: readonly Face[] = [
  {
    name: "a patch file of values",
    seeds: [
      '{"op":"add","path":"/m/a/b","value":{"c":[1,2,{"d":null}]}}',
      '[{"op":"remove","path":"/m/a"},{"op":"test","path":"/m/list/0","value":1}]\n{"op":"copy","from":"/m/list","path":"/m/x"}',
      '{"op":"move","from":"/m/a","path":"/m/list/-"}{"op":"add","path":"/webEnabled","value":"true"}',
      '{"op":"replace","path":"m.list.0","value":"\\u0000"}',
    ],
    feed(input) {
      for (const rules of RULES) {
        const { operations } = parsePatch(input.toString(), rules);
        const section = { list: [1, 2, 3], a: { b: { c: "d" } } };
        replayStoredPatches(section, operations);
        applyJsonPatch(section, operations);
        toStoredOperations(section, operations);
      }
    },
    refuses: [PatchError],
  },
  {
    name: "a patch file of objects",
    seeds: [
      '{"operation":"Create","object":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"b"}}}',
      '{"operation":"JSONPatch","kind":"Pod","name":"a","jsonPatch":[{"op":"add","path":"/a","value":1}]}{"operation":"Delete","kind":"Pod","name":"a"}',
      "---\noperation: MergePatch\nkind: Deployment\napiVersion: apps/v1\nname: a\nnamespace: b\nmergePatch: {spec: {replicas: 1}}\n---\noperation: JQPatch\nkind: ConfigMap\nname: x\njqFilter: .data.a = 1\n",
    ],
    feed: (input) => parseObjectOperations(input.toString()),
    refuses: [OutputError],
  },
  {
    name: "a metrics file",
    seeds: [
      '{"name":"{PREFIX}a","action":"set","value":1,"labels":{"a":"b"}}\n{"name":"c","add":1}',
      '{"name":"h","action":"observe","value":0.5,"buckets":[1,2,5],"labels":{}}\n{"group":"g","action":"expire"}',
      '{"name":"a","set":1e3,"group":"g","labels":{"x":"\\"\\n"}}',
    ],
    feed(input) {
      const metrics = new HookMetrics("p_", () => true);
      metrics.apply(parseMetrics(input.toString()), { hook: "h" });
      metrics.renderText();
    },
    refuses: [OutputError, HookMetricError],
  },
  {
    name: "the output of --config",
    seeds: [
      '{"configVersion":"v1","onStartup":1,"schedule":[{"name":"s","crontab":"*/5 * * * * *","queue":"q"}]}',
      "configVersion: v1\nkubernetes:\n- name: pods\n  kind: Pod\n  jqFilter: .metadata.labels\n  labelSelector: {matchLabels: {a: b}}\n  namespace: {nameSelector: {matchNames: [a]}}\n  fieldSelector: {matchExpressions: [{field: metadata.name, operator: Equals, value: a}]}\nsettings: {executionMinInterval: 1m30s}\n",
      '{"onStartup":10,"beforeHelm":1,"onKubernetesEvent":[{"kind":"pod","event":["add"]}]}',
    ],
    feed(input) {
      for (const kind of ["global", "module"] as const) parseHookConfig(input.toString(), kind);
    },
    refuses: [],
  },
  {
    name: "the content of the ConfigMap",
    seeds: [
      "a: 1\nb: {c: [1, 2, &x {d: e}, *x]}\ntext: |\n  one\n  two\n",
      '"false"',
      "NoResourceReconciliation",
      "<<: {a: 1}\nd: 12:30\ne: 0o17\nf: 2001-01-01\n",
    ],
    feed(input) {
      const text = input.toString();
      const keys = ["global", "m", "mEnabled", "mMaintenance", "mProtected", "other", text.slice(0, 50)];
      parseConfigMap("ConfigMap x", Object.fromEntries(keys.map((key) => [key, text])), [{ valuesKey: "m" }]);
    },
    refuses: [],
  },
  ...releaseFaces(),
  {
    name: "a line that a hook writes",
    seeds: [
      '{"level":"info","msg":"hello","password":"x","list":[1,2]}',
      '{\n"msg": "over\n lines"}\n',
      "-----BEGIN RSA PRIVATE KEY-----\nabcd\n-----END RSA PRIVATE KEY-----\nplain token=abc\n",
      "postgres://user:password@host/db Bearer abcdefghijklmnop --password=abc",
    ],
    feed(input) {
      const log = new OutputLog(
        createLogger({
          level: "debug",
          type: "json",
          noTime: true,
          clock: new ManualClock(),
          write: () => {},
        }),
        { proxyJson: true },
      );
      for (const line of input.toString().split("\n")) log.writeLine("stdout", line.slice(0, 10_000));
    },
    refuses: [],
  },
];

/** helm's records, whole and at each layer of their packing. */
function releaseFaces(): Face[] {
  const record = JSON.stringify({
    name: "a",
    info: { status: "deployed" },
    chart: { metadata: { name: "a", version: "1.0.0" } },
    config: { a: 1 },
    manifest:
      "---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n---\nkind: List\nitems: [{kind: A}]\n",
    hooks: [
      {
        manifest: "kind: Job\n",
        kind: "Job",
        name: "a",
        events: ["pre-install"],
        last_run: { phase: "Running" },
      },
    ],
    apply_method: "ssa",
  });
  const read = async (data: string): Promise<void> => {
    await summarize(await decodeRelease(data));
    await changeEncodedRecord(data, { info: { status: "failed", description: "x" } });
  };
  const twice = (bytes: Uint8Array): string =>
    Buffer.from(Buffer.from(bytes).toString("base64")).toString("base64");
  const refuses = [SyntaxError, DepthError];
  const packed = gzipSync(record);
  const odd = ["null", "[]", "1", '{"hooks":[null,1,{}],"manifest":{},"chart":[],"info":"x"}'];
  return [
    {
      name: "a Secret of a release",
      seeds: [twice(packed), "", "x"],
      feed: (input) => read(input.toString("latin1")),
      refuses,
    },
    {
      name: "a packed record",
      seeds: [packed, gzipSync("{}")],
      feed: (input) => read(twice(input)),
      refuses,
    },
    { name: "a record", seeds: [record, ...odd], feed: (input) => read(twice(gzipSync(input))), refuses },
  ];
}

const options = { numRuns: RUNS };

describe("every face takes any input: it is read or refused, in time and in bounded memory", () => {
  feedAll(adapters);

  it("a binding, the stream of its watch and the context of its hook", { timeout: 3_600_000 }, async () => {
    const frames = [
      `${JSON.stringify(added(configMap("a", 11, { data: { a: "b" } })))}\n`,
      `${JSON.stringify({ type: "BOOKMARK", object: { metadata: { resourceVersion: "12" } } })}\n`,
      `${JSON.stringify({ type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } })}\n`,
    ];
    await fc.assert(
      fc.asyncProperty(mutated(frames), async (input) => {
        const lab = bindingsLab();
        const of = hookOf("h", [binding({ includeSnapshotsFrom: ["maps"] })]);
        const ready = lab.bindings.enable(of);
        const watch = await lab.serve(10, [configMap("b", 2)]);
        await ready;
        lab.bindings.unlock(of);
        watch.send(input.toString());
        await settle();
        const snapshots = lab.bindings.snapshots(of);
        const text = [
          ...renderContext({
            config: of.config,
            triggers: [
              {
                type: "schedule",
                binding: { ...binding({ includeSnapshotsFrom: ["maps"] }), type: "schedule", crontab: "" },
              } as never,
            ],
            snapshots: { byBindingName: (name) => snapshots.byBindingName(name), byBindingId: () => [] },
          }),
        ].join("");
        expect(JSON.parse(text)).toHaveLength(1);
        lab.bindings.close();
      }),
      { ...options, numRuns: Math.ceil(RUNS / 3) },
    );
  });
});

describe.each<FaceName>(["HTTP port", "debug socket"])("the %s answers or closes", (name) => {
  let face: OpenFace;

  beforeAll(async () => {
    face = await openFace(name, { headMs: 2000, requestMs: 2000, idleMs: 2000 });
  });
  afterAll(() => face.close());

  it("whatever it is sent", { timeout: 3_600_000 }, async () => {
    const seeds = HOSTILE.map(([, bytes]) => Buffer.from(bytes, "latin1")).filter(
      ({ length }) => length < 1000,
    );
    await fc.assert(
      fc.asyncProperty(mutated(seeds), async (input) => void (await exchange(face.address, input, true))),
      options,
    );
    expect(face.failures).toEqual([]);
    expect(statusOf(await get(face.address, "/"))).toBe(200);
  });
});
