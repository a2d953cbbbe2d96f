// Operations of KUBERNETES_PATCH_PATH, and metrics of METRICS_PATH.
import { deepEqual, equal, match, ok } from "node:assert/strict";

const CONTRACT = "hook contract, KUBERNETES_PATCH_PATH";
const METRICS = "hook contract, METRICS_PATH";

const object = (namespace, name, data) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, namespace },
  data,
});

/** A global onStartup hook that writes `operations`, one per line, to the file in `variable`. */
function writer(world, order, { name, variable = "KUBERNETES_PATCH_PATH", operations }) {
  const lines = operations.map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join("\n");
  const body = `cat >"$${variable}" <<'OPERATIONS'\n${lines}\nOPERATIONS`;
  world.hook(`global-hooks/${name}.sh`, { name, config: { configVersion: "v1", onStartup: order }, body });
}

function prepareFiles(world) {
  const { namespace } = world;
  const at = (name) => ({ apiVersion: "v1", kind: "ConfigMap", namespace, name });
  writer(world, 1, {
    name: "create",
    operations: [
      { operation: "Create", object: object(namespace, "created", { a: "1" }) },
      { operation: "CreateIfNotExists", object: object(namespace, "kept", { a: "new" }) },
      { operation: "CreateIfNotExists", object: object(namespace, "made", { a: "1" }) },
      { operation: "CreateOrUpdate", object: object(namespace, "replaced", { a: "new" }) },
    ],
  });
  writer(world, 2, {
    name: "patch",
    operations: [
      { operation: "MergePatch", ...at("merged"), mergePatch: { data: { a: null, b: "2" } } },
      {
        operation: "JSONPatch",
        ...at("patched"),
        jsonPatch: [{ op: "replace", path: "/data/a", value: "2" }],
      },
      { operation: "JQPatch", ...at("queried"), jqFilter: '.data.a = "2"' },
      {
        operation: "MergePatch",
        ...at("missing"),
        mergePatch: { data: { a: "1" } },
        ignoreMissingObject: true,
      },
    ],
  });
  writer(world, 3, {
    name: "delete",
    operations: [
      { operation: "Delete", ...at("deleted") },
      { operation: "DeleteInBackground", ...at("deleted-in-background") },
      { operation: "DeleteNonCascading", ...at("deleted-without-dependents") },
      { operation: "Delete", ...at("never-there") },
    ],
  });
  writer(world, 4, {
    name: "yaml",
    operations: [
      `operation: CreateOrUpdate\nobject: |\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: from-yaml, namespace: ${namespace}}\n  data: {a: "1"}\n---\noperation: Delete\nkind: ConfigMap\napiVersion: v1\nnamespace: ${namespace}\nname: deleted-by-yaml`,
    ],
  });
  writer(world, 5, {
    name: "metrics",
    variable: "METRICS_PATH",
    operations: [
      { name: "conformance_gauge", action: "set", value: 33, labels: { zone: "a" } },
      { name: "conformance_counter", action: "add", value: 2 },
      { name: "conformance_counter", action: "add", value: 3 },
      { name: "conformance_short", set: 7 },
      { name: "conformance_seconds", action: "observe", value: 0.3, buckets: [0.1, 0.5, 1] },
      { name: "conformance_grouped", action: "set", value: 1, group: "g", labels: { item: "old" } },
    ],
  });
  writer(world, 6, {
    name: "metrics-again",
    variable: "METRICS_PATH",
    operations: [
      { name: "conformance_grouped", action: "set", value: 1, group: "g", labels: { item: "new" } },
    ],
  });
  // Nothing of a file with an invalid operation takes effect.
  const half = [
    JSON.stringify({ operation: "Create", object: object(namespace, "half", { a: "1" }) }),
    JSON.stringify({ operation: "Explode", ...at("half") }),
  ].join("\n");
  world.hook("global-hooks/invalid.sh", {
    name: "invalid",
    config: { configVersion: "v1", onStartup: 7 },
    body: `[ "$(grep -l '"invalid"' "$RUNS"/*.json | wc -l)" -gt 1 ] || cat >"$KUBERNETES_PATCH_PATH" <<'OPERATIONS'\n${half}\nOPERATIONS`,
  });
}

const line = (text, name) => text.split("\n").filter((each) => each.startsWith(name));

export default {
  name: "objects",
  cases: {
    create: { source: CONTRACT, statement: "Create creates the object." },
    "create-if-not-exists": {
      source: CONTRACT,
      statement: "CreateIfNotExists leaves an existing object alone, and creates a missing one.",
    },
    "create-or-update": { source: CONTRACT, statement: "CreateOrUpdate replaces an existing object." },
    "merge-patch": { source: CONTRACT, statement: "MergePatch merges, and null removes a key." },
    "json-patch": { source: CONTRACT, statement: "JSONPatch applies the operations." },
    "jq-patch": { source: CONTRACT, statement: "JQPatch writes the result of the filter." },
    "ignore-missing": { source: CONTRACT, statement: "ignoreMissingObject makes a missing object no error." },
    delete: { source: CONTRACT, statement: "The three deletions delete, and a missing object is no error." },
    yaml: { source: CONTRACT, statement: "The file can contain YAML documents, and object can be a text." },
    invalid: {
      source: CONTRACT,
      statement: "If one operation is invalid, none is executed, and the hook is executed again.",
    },
    gauge: { source: METRICS, statement: "set is a gauge with the labels of the hook." },
    counter: { source: METRICS, statement: "add sums up in a counter." },
    short: { source: METRICS, statement: "The short form sets a value." },
    histogram: { source: METRICS, statement: "observe is a histogram with the buckets." },
    group: {
      source: METRICS,
      statement: "The first operation of a group removes the series that the group had before.",
    },
  },
  async run(world, check) {
    prepareFiles(world);
    await world.prepare({});
    const names = [
      "merged",
      "patched",
      "queried",
      "deleted",
      "deleted-in-background",
      "deleted-without-dependents",
      "deleted-by-yaml",
    ];
    for (const name of [...names, "kept", "replaced"])
      await world.apply(object(world.namespace, name, { a: "1" }));
    await world.start();
    await world.waitReady();
    const data = async (name) => (await world.get("configmap", name))?.data;
    await check("create", async () => deepEqual(await data("created"), { a: "1" }));
    await check("create-if-not-exists", async () =>
      deepEqual([await data("kept"), await data("made")], [{ a: "1" }, { a: "1" }]),
    );
    await check("create-or-update", async () => deepEqual(await data("replaced"), { a: "new" }));
    await check("merge-patch", async () => deepEqual(await data("merged"), { b: "2" }));
    await check("json-patch", async () => deepEqual(await data("patched"), { a: "2" }));
    await check("jq-patch", async () => deepEqual(await data("queried"), { a: "2" }));
    await check("ignore-missing", async () =>
      deepEqual([world.runs("patch").length, await data("missing")], [1, undefined]),
    );
    await check("delete", async () => {
      for (const name of ["deleted", "deleted-in-background", "deleted-without-dependents"])
        await world.until(async () => (await data(name)) === undefined, `${name} is gone`);
      equal(world.runs("delete").length, 1);
    });
    await check("yaml", async () =>
      deepEqual([await data("from-yaml"), await data("deleted-by-yaml")], [{ a: "1" }, undefined]),
    );
    await check("invalid", async () =>
      deepEqual([await data("half"), world.runs("invalid").length > 1], [undefined, true]),
    );
    const scraped = async () =>
      (await world.http("/metrics")).body + (await world.http("/metrics/hooks")).body;
    await check("gauge", async () => {
      const [text] = line(await scraped(), "conformance_gauge{");
      ok(/zone="a"/.test(text) && /hook="[^"]*metrics\.sh"/.test(text), text);
      match(text, / 33$/);
    });
    await check("counter", async () => match(line(await scraped(), "conformance_counter{")[0], / 5$/));
    await check("short", async () => match(line(await scraped(), "conformance_short{")[0], / 7$/));
    await check("histogram", async () => {
      const buckets = line(await scraped(), "conformance_seconds_bucket{");
      equal(
        buckets
          .find((text) => /le="0\.1"/.test(text))
          ?.split(" ")
          .at(-1),
        "0",
      );
      equal(
        buckets
          .find((text) => /le="0\.5"/.test(text))
          ?.split(" ")
          .at(-1),
        "1",
      );
    });
    await check("group", async () => {
      const items = line(await scraped(), "conformance_grouped{").map((text) => /item="(\w+)"/.exec(text)[1]);
      deepEqual(new Set(items), new Set(["new"]));
    });
  },
};
