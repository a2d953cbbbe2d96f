// Events of objects and schedules: contexts, filters, queues, failures and their effect on values.
import { deepEqual, equal, ok } from "node:assert/strict";

const STEPS = "LIFECYCLE-STEPS";
const CONTRACT = "hook contract";

const configMap = (name, { labels = {}, data = {}, annotations = {} } = {}) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, labels, annotations },
  data,
});

function prepareFiles(world) {
  const namespace = { nameSelector: { matchNames: [world.namespace] } };
  const select = (role, more) => ({
    name: role,
    apiVersion: "v1",
    kind: "ConfigMap",
    namespace,
    labelSelector: { matchLabels: { role } },
    executeHookOnSynchronization: false,
    ...more,
  });
  const hook = (path, config, body) => {
    const name = /(\w+)\.sh$/.exec(path)[1];
    world.hook(path, { name, config: { configVersion: "v1", ...config }, body });
  };
  world.write("modules/values.yaml", "mEnabled: true\n");
  world.chart("010-m", {
    templates: {
      "cm.yaml":
        'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {v: {{ .Values.m.v | default "none" | quote }}}\n',
    },
  });
  world.write("modules/010-m/values.yaml", "m: {}\n");
  hook("modules/010-m/hooks/steps.sh", { onStartup: 1, beforeHelm: 1 });
  hook("modules/010-m/hooks/filtered.sh", {
    kubernetes: [select("filtered", { jqFilter: ".data" })],
  });
  hook("modules/010-m/hooks/added.sh", {
    kubernetes: [select("added", { executeHookOnEvent: ["Added"] })],
  });
  hook(
    "modules/010-m/hooks/patch.sh",
    { kubernetes: [select("patch")] },
    `echo '{"op": "add", "path": "/m/v", "value": "event"}' >"$VALUES_JSON_PATCH_PATH"`,
  );
  hook(
    "modules/010-m/hooks/slow.sh",
    { kubernetes: [select("slow", { queue: "slow" })] },
    'until [ -e "$GATES/slow" ]; do sleep 0.1; done',
  );
  hook(
    "modules/010-m/hooks/flaky.sh",
    { kubernetes: [select("flaky", { queue: "flaky" })] },
    '[ -e "$GATES/flaky" ] || exit 1',
  );
  hook(
    "modules/010-m/hooks/allowed.sh",
    { kubernetes: [select("allowed", { allowFailure: true, queue: "allowed" })] },
    "exit 1",
  );
  hook("modules/010-m/hooks/group.sh", {
    kubernetes: [select("group", { group: "g" }), select("other", { group: "g", name: "other" })],
  });
  hook("modules/010-m/hooks/tick.sh", {
    schedule: [
      { name: "each-second", crontab: "* * * * * *", queue: "tick", includeSnapshotsFrom: ["snap"] },
    ],
    kubernetes: [select("snap", { executeHookOnEvent: [], queue: "tick" })],
  });
  hook("modules/010-m/hooks/slim.sh", {
    kubernetes: [select("slim", { keepFullObjectsInMemory: false, jqFilter: ".data.a" })],
  });
  hook(
    "global-hooks/event.sh",
    { kubernetes: [select("global")], beforeAll: 1 },
    `jq -e '.[0].type == "Event"' "$BINDING_CONTEXT_PATH" >/dev/null && echo '{"op": "add", "path": "/global/v", "value": "event"}' >"$VALUES_JSON_PATCH_PATH" || true`,
  );
}

const contextsOf = (world, hook) => world.runs(hook).flatMap(({ contexts }) => contexts);

export default {
  name: "events",
  cases: {
    added: {
      source: `${STEPS}, 10`,
      statement: "A new object gives an Event with watchEvent Added, the object and the filter's result.",
    },
    modified: {
      source: CONTRACT,
      statement: "A change of the filter's result gives an Event with watchEvent Modified.",
    },
    "filter-unchanged": {
      source: "HOOKS, jqFilter",
      statement: "A change that does not alter the filter's result runs no hook.",
    },
    deleted: { source: CONTRACT, statement: "A deletion gives an Event with watchEvent Deleted." },
    "execute-on-event": { source: CONTRACT, statement: "executeHookOnEvent limits the kinds of events." },
    "values-change": {
      source: `${STEPS}, 10`,
      statement: "A hook that changes values of its module causes a run of the module without onStartup.",
    },
    "global-values-change": {
      source: `${STEPS}, 9`,
      statement: "A global hook that changes global values causes a run of all modules.",
    },
    "named-queue": {
      source: "LIFECYCLE, Named queues",
      statement: "A hook in a named queue does not hold up the queue main.",
    },
    retry: {
      source: "LIFECYCLE, Task queues",
      statement: "A hook that fails is executed again until it succeeds, with the same event.",
    },
    "retry-keeps-order": {
      source: "LIFECYCLE, Task queues",
      statement: "A failed task stays at the head of its queue.",
    },
    "allow-failure": {
      source: "HOOKS, What happens if hook fails?",
      statement: "With allowFailure, the queue goes on after a failure.",
    },
    group: {
      source: CONTRACT,
      statement: "A binding with a group has type Group and the snapshots of the group.",
    },
    schedule: {
      source: `${STEPS}, 12`,
      statement: "A crontab line with seconds runs the hook with type Schedule and its snapshots.",
    },
    slim: {
      source: CONTRACT,
      statement: "keepFullObjectsInMemory: false leaves the object out and keeps the filter's result.",
    },
  },
  async run(world, check) {
    prepareFiles(world);
    await world.prepare({});
    await world.start();
    await world.waitReady();
    const contexts = (hook, count) =>
      world.until(
        () => contextsOf(world, hook).length >= count && contextsOf(world, hook),
        `${count} contexts of ${hook}`,
      );
    const create = (name, role, data = {}) => world.apply(configMap(name, { labels: { role }, data }));

    await check("added", async () => {
      await create("f1", "filtered", { a: "1" });
      const [context] = await contexts("filtered", 1);
      deepEqual([context.type, context.watchEvent, context.binding], ["Event", "Added", "filtered"]);
      deepEqual([context.object.metadata.name, context.filterResult], ["f1", { a: "1" }]);
    });
    await check("modified", async () => {
      await create("f1", "filtered", { a: "2" });
      const [, context] = await contexts("filtered", 2);
      deepEqual([context.watchEvent, context.filterResult], ["Modified", { a: "2" }]);
    });
    await check("filter-unchanged", async () => {
      await world.kubectl(["annotate", "configmap", "f1", "note=x"]);
      await create("f2", "filtered", { b: "1" });
      const all = await contexts("filtered", 3);
      deepEqual(
        all.slice(2).map(({ watchEvent, object }) => [watchEvent, object.metadata.name]),
        [["Added", "f2"]],
      );
    });
    await check("deleted", async () => {
      await world.kubectl(["delete", "configmap", "f1"]);
      const context = (await contexts("filtered", 4))[3];
      deepEqual([context.watchEvent, context.object.metadata.name], ["Deleted", "f1"]);
    });
    await check("execute-on-event", async () => {
      await create("a1", "added", { a: "1" });
      await contexts("added", 1);
      await create("a1", "added", { a: "2" });
      await create("a2", "added");
      const all = await contexts("added", 2);
      deepEqual(
        all.map(({ watchEvent, object }) => [watchEvent, object.metadata.name]),
        [
          ["Added", "a1"],
          ["Added", "a2"],
        ],
      );
    });
    await check("values-change", async () => {
      const before = world.runs("steps").length;
      await create("p1", "patch");
      await world.until(
        async () => (await world.get("configmap", "m")).data.v === "event",
        "the chart has the value",
      );
      deepEqual(
        world
          .runs("steps")
          .slice(before)
          .map(({ contexts: [{ binding }] }) => binding),
        ["beforeHelm"],
      );
    });
    await check("global-values-change", async () => {
      const count = () => contextsOf(world, "event").filter(({ binding }) => binding === "beforeAll").length;
      const before = count();
      await create("g1", "global");
      await world.until(() => count() > before, "beforeAll runs again");
    });
    await check("named-queue", async () => {
      await create("s1", "slow");
      await contexts("slow", 1);
      await create("a3", "added");
      await contexts("added", 3);
      world.openGate("slow");
    });
    await check("retry", async () => {
      await create("r1", "flaky");
      const all = await contexts("flaky", 2);
      deepEqual(
        all.slice(0, 2).map(({ object }) => object.metadata.name),
        ["r1", "r1"],
      );
    });
    await check("retry-keeps-order", async () => {
      await create("r2", "flaky");
      const known = world.runs("flaky").length;
      await world.until(() => world.runs("flaky").length > known, "another attempt");
      ok(world.runs("flaky").every(({ contexts: [{ object }] }) => object.metadata.name === "r1"));
      world.openGate("flaky");
      await world.until(
        () => contextsOf(world, "flaky").some(({ object }) => object.metadata.name === "r2"),
        "r2 follows",
      );
    });
    await check("allow-failure", async () => {
      await create("w1", "allowed");
      await contexts("allowed", 1);
      await create("w2", "allowed");
      const all = await contexts("allowed", 2);
      deepEqual(
        all.map(({ object }) => object.metadata.name),
        ["w1", "w2"],
      );
    });
    await check("group", async () => {
      await create("o1", "group");
      const [context] = await contexts("group", 1);
      deepEqual([context.type, context.groupName], ["Group", "g"]);
      deepEqual(Object.keys(context.snapshots).toSorted(), ["group", "other"]);
      equal(context.object, undefined);
    });
    await check("schedule", async () => {
      await create("t1", "snap");
      const has = ({ snapshots }) => snapshots?.snap?.length === 1;
      const context = await world.until(
        () => contextsOf(world, "tick").find(has),
        "a tick with the snapshot",
      );
      deepEqual([context.type, context.binding], ["Schedule", "each-second"]);
    });
    await check("slim", async () => {
      await create("l1", "slim", { a: "1" });
      const [context] = await contexts("slim", 1);
      deepEqual([context.object, context.filterResult], [undefined, "1"]);
    });
  },
};
