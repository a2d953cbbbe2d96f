// Edits of the ConfigMap and changes of values by hooks: what runs, and what does not.
import { deepEqual, equal, ok } from "node:assert/strict";

const STEPS = "LIFECYCLE-STEPS";

function prepareFiles(world) {
  world.write("modules/values.yaml", "oneEnabled: true\ntwoEnabled: true\n");
  for (const [dir, key] of [
    ["010-one", "one"],
    ["020-two", "two"],
  ]) {
    const data = `data: {size: {{ .Values.${key}.size | default "none" | quote }}, from: {{ .Values.${key}.from | default "none" | quote }}}`;
    world.chart(dir, {
      templates: { "cm.yaml": `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${key}}\n${data}\n` },
    });
    world.write(`modules/${dir}/values.yaml`, `${key}: {size: small}\n`);
    world.hook(`modules/${dir}/hooks/all.sh`, {
      name: key,
      config: { configVersion: "v1", onStartup: 1, beforeHelm: 1, afterHelm: 1, afterDeleteHelm: 1 },
      body: key === "two" ? AFTER_HELM : "",
    });
  }
  world.hook("global-hooks/all.sh", {
    name: "global",
    config: { configVersion: "v1", beforeAll: 1, afterAll: 1 },
    body: AFTER_ALL,
  });
}

/** On the gate, afterHelm writes a value once: the module must run again with it. */
const AFTER_HELM = `
if [ -e "$GATES/after-helm" ] && jq -e '.[0].binding == "afterHelm"' "$BINDING_CONTEXT_PATH" >/dev/null; then
  echo '{"op": "add", "path": "/two/from", "value": "after-helm"}' >"$VALUES_JSON_PATCH_PATH"
fi`;
const AFTER_ALL = `
if [ -e "$GATES/after-all" ] && jq -e '.[0].binding == "afterAll"' "$BINDING_CONTEXT_PATH" >/dev/null; then
  echo '{"op": "add", "path": "/global/changed", "value": true}' >"$VALUES_JSON_PATCH_PATH"
fi`;

const names = (runs) => runs.map(({ hook, contexts }) => `${hook} ${contexts[0].binding}`);
const revisions = async (world, name) =>
  (await world.kubectl(["get", "secrets", "-l", `owner=helm,name=${name}`, "-o", "name"]))
    .trim()
    .split("\n")
    .filter(Boolean);

export default {
  name: "edits",
  cases: {
    "module-section": {
      source: `${STEPS}, 16`,
      statement: "An edit of a module's section runs beforeHelm, helm and afterHelm of this module only.",
    },
    "module-section-helm": {
      source: "VALUES, ConfigMap/addon-operator",
      statement: "The chart gets the value of the edited section.",
    },
    "unused-value": {
      source: `${STEPS}, 5`,
      statement: "Helm does not upgrade a release whose manifest does not change.",
    },
    "global-section": {
      source: `${STEPS}, 16`,
      statement: "An edit of the global section runs beforeAll, all modules and afterAll, without onStartup.",
    },
    "after-helm-changes": {
      source: `${STEPS}, 5`,
      statement: "If afterHelm hooks change values of the module, the module runs again.",
    },
    "after-all-changes": {
      source: `${STEPS}, 8`,
      statement: "If afterAll hooks change global values, all modules run again.",
    },
    disable: {
      source: `${STEPS}, 6`,
      statement: "A flag set to false removes the release, and then runs afterDeleteHelm.",
    },
    enable: { source: `${STEPS}, 5`, statement: "A module that becomes enabled runs onStartup again." },
    "remove-section": {
      source: "VALUES, ConfigMap/addon-operator",
      statement: "Without its section, a module has the values of its files.",
    },
    invalid: {
      source: "hook contract, ConfigMap",
      statement: "Content that is no YAML takes no effect, and its correction does.",
    },
    restored: { source: `${STEPS}, 15`, statement: "A deleted object of a release is created again." },
    purge: {
      source: `${STEPS}, 7`,
      statement: "The release of a module without a directory is removed after a restart.",
    },
    "memory-lost": { source: "VALUES, Update values", statement: "Values patches do not outlive a restart." },
  },
  async run(world, check) {
    prepareFiles(world);
    await world.prepare({});
    await world.start();
    await world.waitReady();
    const since = () => {
      const count = world.runs().length;
      return () => names(world.runs().slice(count));
    };
    const reaches = (runs, last) => world.until(() => runs().includes(last), `a run "${last}"`);

    let runs = since();
    await check("module-section", async () => {
      await world.editConfig({ one: "size: large\n" });
      await reaches(runs, "one afterHelm");
      deepEqual(runs(), ["one beforeHelm", "one afterHelm"]);
    });
    await check("module-section-helm", async () =>
      equal((await world.get("configmap", "one")).data.size, "large"),
    );
    await check("unused-value", async () => {
      const before = await revisions(world, "one");
      runs = since();
      await world.editConfig({ one: "size: large\nunused: 1\n" });
      await reaches(runs, "one afterHelm");
      deepEqual(await revisions(world, "one"), before);
    });
    await check("global-section", async () => {
      runs = since();
      await world.editConfig({ global: "colour: red\n" });
      await reaches(runs, "global afterAll");
      const all = [
        "global beforeAll",
        "one beforeHelm",
        "one afterHelm",
        "two beforeHelm",
        "two afterHelm",
        "global afterAll",
      ];
      deepEqual(runs(), all);
    });
    await check("after-helm-changes", async () => {
      world.openGate("after-helm");
      await world.editConfig({ two: "size: medium\n" });
      await world.until(
        async () => (await world.get("configmap", "two")).data.from === "after-helm",
        "the second run",
      );
    });
    await check("after-all-changes", async () => {
      runs = since();
      world.openGate("after-all");
      await world.editConfig({ global: "colour: blue\n" });
      const twice = () => runs().filter((name) => name === "global afterAll").length >= 2;
      await world.until(twice, "a second converge");
    });
    await check("disable", async () => {
      runs = since();
      await world.editConfig({ oneEnabled: "false" });
      await reaches(runs, "one afterDeleteHelm");
      await world.until(
        async () => (await world.get("configmap", "one")) === undefined,
        "the object is gone",
      );
      deepEqual(await revisions(world, "one"), []);
    });
    await check("enable", async () => {
      runs = since();
      await world.editConfig({ oneEnabled: "true" });
      await reaches(runs, "one afterHelm");
      ok(runs().includes("one onStartup"), runs().join(", "));
    });
    await check("remove-section", async () => {
      await world.editConfig({ one: null });
      await world.until(
        async () => (await world.get("configmap", "one"))?.data.size === "small",
        "the value of the file",
      );
    });
    await check("invalid", async () => {
      await world.editConfig({ one: "size: [unclosed\n" });
      await world.editConfig({ two: "size: huge\n" });
      await world.editConfig({ one: "size: tiny\n" });
      await world.until(
        async () => (await world.get("configmap", "one")).data.size === "tiny",
        "the corrected value",
      );
      await world.until(
        async () => (await world.get("configmap", "two")).data.size === "huge",
        "the other module's value",
      );
    });
    await check("restored", async () => {
      await world.kubectl(["delete", "configmap", "one"]);
      await world.until(
        async () => (await world.get("configmap", "one")) !== undefined,
        "the object",
        360_000,
      );
    });
    await world.stop();
    world.remove("modules/010-one");
    world.remove("gates/after-helm");
    runs = since();
    await world.start();
    await check("purge", async () => {
      await world.until(async () => (await revisions(world, "one")).length === 0, "the release is gone");
      equal(await world.get("configmap", "one"), undefined);
    });
    await check("memory-lost", async () => {
      await world.until(
        async () => (await world.get("configmap", "two")).data.from === "none",
        "the value of the patch is gone",
      );
    });
  },
};
