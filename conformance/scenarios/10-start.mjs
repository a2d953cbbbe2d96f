// A start: the order of hooks and modules, what each receives, and which modules are enabled.
import { deepEqual, equal, ok } from "node:assert/strict";

const STEPS = "LIFECYCLE-STEPS";
const CM = (name) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name } });

function prepareFiles(world) {
  const watched = {
    name: "watched",
    apiVersion: "v1",
    kind: "ConfigMap",
    labelSelector: { matchLabels: { role: "seen" } },
  };
  const binding = { ...watched, namespace: { nameSelector: { matchNames: [world.namespace] } } };
  world.write(
    "modules/values.yaml",
    [
      "global: {base: file, over: file, list: [1, 2], map: {a: 1, b: 2}}",
      "alphaEnabled: true",
      "betaEnabled: true",
      "gammaEnabled: true",
      "deltaEnabled: true",
      "zetaEnabled: false",
      "alpha: {a: common, b: common, list: [1, 2], map: {p: 1, q: 1}}",
    ].join("\n"),
  );
  const template = "data: {values: {{ .Values | toJson | quote }}}";
  const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: alpha-values}\n";
  world.chart("010-alpha", { name: "other-name", templates: { "cm.yaml": configMap + template } });
  world.write("modules/010-alpha/values.yaml", "alpha: {b: own, c: own, list: [3], map: {q: 2}}\n");
  const bindings = { configVersion: "v1", onStartup: 5, beforeHelm: 5, afterHelm: 5, kubernetes: [binding] };
  world.hook("modules/010-alpha/hooks/all.sh", { name: "alpha", config: bindings });
  for (const name of ["020-beta", "030-gamma", "040-delta", "050-epsilon", "060-zeta"]) {
    const key = name.slice(4);
    world.chart(name, {
      templates: { "cm.yaml": `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${key}}\n` },
    });
    world.hook(`modules/${name}/hooks/before.sh`, {
      name: key,
      config: { configVersion: "v1", beforeHelm: 1 },
    });
  }
  world.write("modules/040-delta/values.yaml", "deltaEnabled: false\n");
  world.enabledScript("020-beta", { name: "enabled-beta", result: "true" });
  world.enabledScript("030-gamma", { name: "enabled-gamma", result: "false" });
  const patch = `echo '[{"op": "add", "path": "/global/fromHook", "value": "memory"}]' >"$VALUES_JSON_PATCH_PATH"`;
  const config = `echo '[{"op": "add", "path": "/global/stored", "value": "config"}]' >"$CONFIG_VALUES_JSON_PATCH_PATH"`;
  world.hook("global-hooks/b-first.sh", {
    name: "startup-10",
    config: { configVersion: "v1", onStartup: 10 },
    body: `${patch}\n${config}`,
  });
  world.hook("global-hooks/a-second.sh", {
    name: "startup-20",
    config: { configVersion: "v1", onStartup: 20 },
  });
  world.hook("global-hooks/c-sync.sh", {
    name: "global-sync",
    config: { configVersion: "v1", kubernetes: [binding], beforeAll: 20 },
  });
  world.hook("global-hooks/d-silent.sh", {
    name: "silent",
    config: { configVersion: "v1", kubernetes: [{ ...binding, executeHookOnSynchronization: false }] },
  });
  world.hook("global-hooks/e-all.sh", {
    name: "all",
    config: { configVersion: "v1", beforeAll: 10, afterAll: 10 },
  });
}

const bindingOf = (run) => run.contexts?.[0].binding;
const first = (world, hook, binding) => {
  const run = world.runs(hook).find((each) => bindingOf(each) === binding);
  ok(run, `no run of ${hook} with binding ${binding}`);
  return run;
};
/** The positions of runs, named `HOOK BINDING`, in the order of all runs. */
const sequence = (world) => world.runs().map((run) => `${run.hook} ${bindingOf(run) ?? ""}`);
const inOrder = (world, names) => {
  const all = sequence(world);
  const found = names.map((name) => all.indexOf(name));
  ok(
    !found.includes(-1) && found.every((at, i) => i === 0 || at > found[i - 1]),
    `${names.join(" < ")} in ${all.join(", ")}`,
  );
};

export default {
  name: "start",
  cases: {
    ready: {
      source: "LIFECYCLE, Startup sequence",
      statement: "/readyz answers 200 when the first converge is complete.",
    },
    "on-startup-order": {
      source: `${STEPS}, 1`,
      statement: "Global onStartup hooks run by ORDER, not by name.",
    },
    "on-startup-context": {
      source: `${STEPS}, 1`,
      statement: "The binding context of onStartup is [{binding: onStartup}].",
    },
    "global-config-values": {
      source: `${STEPS}, 1`,
      statement: "CONFIG_VALUES_PATH of a global hook has the global section of the ConfigMap.",
    },
    "global-values": {
      source: "VALUES, Merged values",
      statement: "Global values come from modules/values.yaml, and the ConfigMap overrides them.",
    },
    "global-values-only": {
      source: "VALUES, Using values in the hook",
      statement: "A global hook receives only global values.",
    },
    "values-patch-next-hook": {
      source: `${STEPS}, 1`,
      statement: "A values patch is in the values of the next global hook.",
    },
    "config-patch-stored": {
      source: `${STEPS}, 1`,
      statement: "A patch of config values is in the ConfigMap right after the hook.",
    },
    "config-patch-keeps": {
      source: "VALUES, Update values",
      statement: "A patch of config values keeps the other keys of its section and all other sections.",
    },
    "sync-context": {
      source: `${STEPS}, 2`,
      statement: "The first run of a kubernetes binding has type Synchronization and all existing objects.",
    },
    "sync-after-on-startup": {
      source: `${STEPS}, 2`,
      statement: "Synchronization of global hooks follows all onStartup hooks and precedes beforeAll.",
    },
    "sync-disabled": {
      source: "hook contract, kubernetes",
      statement: "executeHookOnSynchronization: false suppresses the Synchronization run.",
    },
    "before-all-order": { source: `${STEPS}, 3`, statement: "beforeAll hooks run by ORDER." },
    "before-all-snapshots": {
      source: `${STEPS}, 3`,
      statement: "beforeAll has the snapshots of all kubernetes bindings of the hook.",
    },
    "default-disabled": {
      source: "LIFECYCLE, Modules discovery",
      statement: "A module without a flag is disabled.",
    },
    "flag-in-module-values": {
      source: "LIFECYCLE, Keys in values.yaml files",
      statement: "The flag in the module's own values.yaml overrides the one in modules/values.yaml.",
    },
    "flag-in-config-map": {
      source: "LIFECYCLE, values.yaml and ConfigMap",
      statement: "The flag in the ConfigMap overrides the one in modules/values.yaml.",
    },
    "script-disables": {
      source: "LIFECYCLE, Enabled script",
      statement: "A module whose enabled script writes false is disabled.",
    },
    "script-values": {
      source: `${STEPS}, 4`,
      statement: "The enabled script has merged global values and the values of the module.",
    },
    "script-enabled-modules": {
      source: "VALUES, Using the values in enabled scripts",
      statement: "global.enabledModules of an enabled script lists the modules enabled before.",
    },
    "module-order": {
      source: "LIFECYCLE, Module lifecycle",
      statement: "Modules run in the order of their directories, between beforeAll and afterAll.",
    },
    "module-hooks-order": {
      source: `${STEPS}, 5`,
      statement: "A module runs onStartup, Synchronization, beforeHelm, helm, afterHelm in this order.",
    },
    "module-contexts": {
      source: `${STEPS}, 5`,
      statement: "beforeHelm and afterHelm have their binding name and snapshots.",
    },
    "module-values-merge": {
      source: "VALUES, Merged values",
      statement: "Values of a module merge both files and the ConfigMap; maps merge, lists are replaced.",
    },
    "module-config-values": {
      source: `${STEPS}, 5`,
      statement:
        "CONFIG_VALUES_PATH of a module hook has the global and the module's section of the ConfigMap.",
    },
    "module-enabled-modules": {
      source: "VALUES, Using values in the hook",
      statement: "global.enabledModules of a module hook lists all enabled modules in their order.",
    },
    "module-values-only": {
      source: "VALUES, Values storage",
      statement: "A module hook does not receive values of another module.",
    },
    "release-name": {
      source: `${STEPS}, 5`,
      statement:
        "The release has the name of the module, not the one in Chart.yaml, and the operator's namespace.",
    },
    "helm-values": {
      source: "VALUES, Using values in Helm charts",
      statement: "The chart receives the merged values, without enabledModules.",
    },
    "after-all-last": { source: `${STEPS}, 8`, statement: "afterAll hooks run after all modules." },
  },
  async run(world, check) {
    prepareFiles(world);
    await world.prepare({
      global: "over: configmap\n",
      alpha: "c: configmap\nd: configmap\n",
      zetaEnabled: "true",
    });
    for (const name of ["seen-1", "seen-2"]) {
      const object = CM(name);
      await world.apply({ ...object, metadata: { ...object.metadata, labels: { role: "seen" } } });
    }
    await world.start();
    await check("ready", () => world.waitReady());
    await world.waitReady();
    await check("on-startup-order", () => inOrder(world, ["startup-10 onStartup", "startup-20 onStartup"]));
    await check("on-startup-context", () =>
      deepEqual(world.runs("startup-10")[0].contexts, [{ binding: "onStartup" }]),
    );
    await check("global-config-values", () =>
      equal(world.runs("startup-10")[0].config.global.over, "configmap"),
    );
    await check("global-values", () => {
      const { global } = world.runs("startup-10")[0].values;
      deepEqual([global.base, global.over, global.map], ["file", "configmap", { a: 1, b: 2 }]);
    });
    await check("global-values-only", () =>
      deepEqual(Object.keys(world.runs("startup-10")[0].values), ["global"]),
    );
    await check("values-patch-next-hook", () =>
      equal(world.runs("startup-20")[0].values.global.fromHook, "memory"),
    );
    await check("config-patch-stored", () =>
      equal(world.runs("startup-20")[0].config.global.stored, "config"),
    );
    await check("config-patch-keeps", async () => {
      const { data } = await world.get("configmap", "addon-operator");
      ok(/over:\s*"?configmap/.test(data.global) && /stored:\s*"?config/.test(data.global), data.global);
      equal(data.zetaEnabled, "true");
    });
    await check("sync-context", () => {
      const [context] = first(world, "global-sync", "watched").contexts;
      equal(context.type, "Synchronization");
      deepEqual(context.objects.map(({ object }) => object.metadata.name).toSorted(), ["seen-1", "seen-2"]);
    });
    await check("sync-after-on-startup", () =>
      inOrder(world, ["startup-20 onStartup", "global-sync watched", "all beforeAll"]),
    );
    await check("sync-disabled", () => deepEqual(world.runs("silent"), []));
    await check("before-all-order", () => inOrder(world, ["all beforeAll", "global-sync beforeAll"]));
    await check("before-all-snapshots", () => {
      const [context] = first(world, "global-sync", "beforeAll").contexts;
      deepEqual(context.snapshots.watched.map(({ object }) => object.metadata.name).toSorted(), [
        "seen-1",
        "seen-2",
      ]);
    });
    await check("default-disabled", () => deepEqual(world.runs("epsilon"), []));
    await check("flag-in-module-values", () => deepEqual(world.runs("delta"), []));
    await check("flag-in-config-map", () => equal(world.runs("zeta").length, 1));
    await check("script-disables", () => {
      deepEqual([world.runs("enabled-gamma").length > 0, world.runs("gamma")], [true, []]);
    });
    await check("script-values", () => equal(world.runs("enabled-beta")[0].values.global.over, "configmap"));
    await check("script-enabled-modules", () => {
      deepEqual(world.runs("enabled-gamma")[0].values.global.enabledModules, ["alpha", "beta"]);
    });
    await check("module-order", () =>
      inOrder(world, [
        "global-sync beforeAll",
        "alpha afterHelm",
        "beta beforeHelm",
        "zeta beforeHelm",
        "all afterAll",
      ]),
    );
    await check("module-hooks-order", () =>
      inOrder(world, ["alpha onStartup", "alpha watched", "alpha beforeHelm", "alpha afterHelm"]),
    );
    await check("module-contexts", () => {
      for (const binding of ["beforeHelm", "afterHelm"]) {
        const [context] = first(world, "alpha", binding).contexts;
        equal(context.snapshots.watched.length, 2);
      }
    });
    await check("module-values-merge", () => {
      const { alpha } = first(world, "alpha", "beforeHelm").values;
      const expected = {
        a: "common",
        b: "own",
        c: "configmap",
        d: "configmap",
        list: [3],
        map: { p: 1, q: 2 },
      };
      deepEqual(alpha, expected);
    });
    await check("module-config-values", () => {
      const { config } = first(world, "alpha", "beforeHelm");
      deepEqual(config.alpha, { c: "configmap", d: "configmap" });
      equal(config.global.over, "configmap");
    });
    await check("module-enabled-modules", () => {
      deepEqual(first(world, "alpha", "beforeHelm").values.global.enabledModules, ["alpha", "beta", "zeta"]);
    });
    await check("module-values-only", () => {
      deepEqual(
        Object.keys(first(world, "beta", "beforeHelm").values).filter((key) => key !== "beta"),
        ["global"],
      );
    });
    await check("release-name", async () => {
      const secrets = await world.kubectl([
        "get",
        "secrets",
        "-l",
        "owner=helm",
        "-o",
        "jsonpath={.items[*].metadata.labels.name}",
      ]);
      deepEqual(secrets.split(" ").toSorted(), ["alpha", "beta", "zeta"]);
    });
    await check("helm-values", async () => {
      const values = JSON.parse((await world.get("configmap", "alpha-values")).data.values);
      deepEqual(
        [values.alpha.c, values.global.fromHook, values.global.enabledModules],
        ["configmap", "memory", undefined],
      );
    });
    await check("after-all-last", () => equal(sequence(world).at(-1), "all afterAll"));
  },
};
