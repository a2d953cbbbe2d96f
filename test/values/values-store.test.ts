import { describe, expect, it } from "vitest";

import { KnownSecrets, findKeyLine } from "../../src/base/index.ts";
import type { Json, JsonObject, Module, Tree } from "../../src/base/model/index.ts";
import {
  ValuesStore,
  buildValuesFiles,
  checkConfig,
  checkDisabledModules,
  describeViolations,
  explainInvalidValues,
  parseConfigMap,
  validatePatches,
} from "../../src/values/index.ts";

function moduleOf(name: string, said: { common?: boolean; own?: boolean; schema?: string } = {}): Module {
  return {
    name,
    valuesKey: name,
    common: { file: "values.yaml", section: { from: "common" }, enabled: said.common },
    own: { file: `${name}/values.yaml`, section: { own: 1 }, enabled: said.own },
    schemas: said.schema === undefined ? {} : { config: { file: `${name}.yaml`, text: said.schema } },
  } as unknown as Module;
}

function storeOf(modules: readonly Module[], data: Record<string, string> = {}): ValuesStore {
  const store = new ValuesStore();
  store.setTree({ modules, globalValues: { g: 1 }, globalSchemas: {} } as unknown as Tree);
  take(store, data);
  return store;
}

const parsed = (store: ValuesStore, data: Record<string, string>) =>
  parseConfigMap("ConfigMap addon-operator", data, store.modules());

function take(store: ValuesStore, data: Record<string, string>, overlay?: Record<string, string>): void {
  store.setConfig(parsed(store, data), overlay === undefined ? undefined : parsed(store, overlay));
}

describe("flags: who has the last word", () => {
  it.each([
    [{}, undefined, {}, false, "none"],
    [{ common: true }, undefined, {}, true, "values"],
    [{ common: true, own: false }, undefined, {}, false, "module-values"],
    [{ common: false, own: true }, undefined, {}, true, "module-values"],
    [{ own: true }, false, {}, false, "hook"],
    [{ own: true }, false, { webEnabled: "true" }, true, "configmap"],
    [{ own: true }, true, { web: '"false"' }, false, "configmap"],
  ] as const)("files %j, hook %j, ConfigMap %j: %s by %s", (...[files, hook, data, enabled, by]) => {
    const web = moduleOf("web", files);
    const store = storeOf([web], data);
    store.setHookFlag("web", hook);
    expect(store.flag(web)).toEqual({ enabled, by });
  });

  it.each([
    [["Static", "KubeConfig"], { own: true }, false, {}, true, "module-values"],
    [["DynamicallyEnabled"], { own: true }, undefined, { webEnabled: "true" }, false, "none"],
    [["KubeConfig", "DynamicallyEnabled"], {}, true, { webEnabled: "false" }, true, "hook"],
  ] as const)("only of the extenders %j", (...[flagExtenders, files, hook, data, enabled, by]) => {
    const web = moduleOf("web", files);
    const location = { configMap: "ConfigMap addon-operator", namespace: "default", flagExtenders };
    const store = new ValuesStore(undefined, undefined, location);
    store.setTree({ modules: [web], globalValues: {}, globalSchemas: {} } as unknown as Tree);
    take(store, data);
    store.setHookFlag("web", hook);
    expect(store.flag(web)).toEqual({ enabled, by });
    expect(store.fork().flag(web)).toEqual({ enabled, by });
  });

  it("a hook takes its opinion back", () => {
    const web = moduleOf("web", { own: true });
    const store = storeOf([web]);
    store.setHookFlag("web", false);
    store.setHookFlag("web", undefined);
    expect(store.flag(web)).toEqual({ enabled: true, by: "module-values" });
  });
});

describe("a fork", () => {
  const schema = "type: object\nproperties: {password: {type: string, x-secret: true}}\n";

  it("has all layers, and what is put into it stays there", () => {
    const web = moduleOf("web", { own: true });
    const store = storeOf([web], { web: "a: 1", global: "b: 1" });
    store.setHookFlag("web", false);
    store.addPatches("web", [{ op: "add", path: "/web/patched", value: 1 }]);
    const fork = store.fork();
    for (const key of ["web", "global"])
      expect(fork.mergedSection(key).digest).toBe(store.mergedSection(key).digest);
    expect(fork.flag(web)).toEqual(store.flag(web));
    expect(fork.digests.configDigests()).toEqual(store.digests.configDigests());
    const before = store.digests.configDigests();
    take(fork, { web: "a: 2", webEnabled: "true" });
    expect(fork.mergedSection("web").values).toMatchObject({ a: 2, patched: 1, own: 1 });
    expect(fork.flag(web)).toEqual({ enabled: true, by: "configmap" });
    expect(store.mergedSection("web").values).toMatchObject({ a: 1, patched: 1 });
    expect(store.digests.configDigests()).toEqual(before);
  });

  it("learns no secrets: anyone may send what it is tried with", () => {
    const secrets = new KnownSecrets();
    const store = new ValuesStore(secrets);
    const modules = [moduleOf("web", { schema })];
    store.setTree({ modules, globalValues: {}, globalSchemas: {} } as unknown as Tree);
    const tried = (values: ValuesStore): string => {
      take(values, { web: "password: c0rrect-h0rse" });
      return JSON.stringify(values.mergedSection("web").values) && secrets.redact("c0rrect-h0rse");
    };
    expect(tried(store.fork())).toBe("c0rrect-h0rse");
    expect(tried(store)).not.toBe("c0rrect-h0rse");
  });
});

describe("what people give to the values of a module", () => {
  it("is section and global alone: neither a setting nor a freeze of all modules moves it", () => {
    const web = moduleOf("web", { own: true });
    const given = (data: Record<string, string>): string =>
      storeOf([web], data).digests.configValuesDigest(web);
    const section = { web: "{ x: 1 }" };
    const maintenance = "NoResourceReconciliation";
    expect(given({ ...section, webMaintenance: maintenance })).toBe(given(section));
    expect(given({ ...section, maintenance })).toBe(given(section));
    expect(given({ web: "{ x: 2 }" })).not.toBe(given(section));
    expect(given({ ...section, global: "{ g: 2 }" })).not.toBe(given(section));
  });
});

describe("digests: what moves which", () => {
  const web = moduleOf("web", { own: true });
  const db = moduleOf("db");
  const digests = (store: ValuesStore): JsonObject => ({
    config: store.digests.convergeDigests().globalConfig,
    globals: store.digests.convergeDigests().globals,
    section: store.digests.configInputs(web).section,
    values: store.mergedSection("web").digest,
  });
  it.each<readonly [string, (store: ValuesStore) => void, readonly string[]]>([
    ["the same content", (store) => take(store, { web: "{ x: 1 }" }), []],
    ["other words", (store) => take(store, { web: "x: 1\n" }), []],
    ["a section", (store) => take(store, { web: "{ x: 2 }" }), ["section", "values"]],
    ["another module's section", (store) => take(store, { web: "{ x: 1 }", db: "{ x: 1 }" }), []],
    ["global", (store) => take(store, { web: "{ x: 1 }", global: "{ g: 2 }" }), ["config", "globals"]],
    // Said twice, but now by the ConfigMap.
    ["global as files have it", (store) => take(store, { web: "{ x: 1 }", global: "{ g: 1 }" }), ["config"]],
    ["a flag", (store) => take(store, { web: "{ x: 1 }", dbEnabled: "true" }), ["config", "globals"]],
    [
      "a flag that changes nothing",
      (store) => take(store, { web: "{ x: 1 }", dbEnabled: "false" }),
      ["config"],
    ],
    [
      "maintenance",
      (store) => take(store, { web: "{ x: 1 }", webMaintenance: "NoResourceReconciliation" }),
      ["section"],
    ],
    ["protection", (store) => take(store, { web: "{ x: 1 }", webProtected: "true" }), ["section"]],
    ["an overlay", (store) => take(store, { web: "{ x: 1 }" }, { web: "{ z: 1 }" }), ["section", "values"]],
    ["an empty global section", (store) => take(store, { web: "{ x: 1 }", global: "{}" }), []],
    ["a hook's flag", (store) => store.setHookFlag("db", true), ["globals"]],
    [
      "a hook's patch",
      (store) => store.addPatches("web", [{ op: "add", path: "/web/z", value: 1 }]),
      ["values"],
    ],
    [
      "a hook's patch of what is so already",
      (store) => store.addPatches("web", [{ op: "add", path: "/web/x", value: 1 }]),
      [],
    ],
    [
      "a hook's global patch",
      (store) => store.addPatches("global", [{ op: "add", path: "/global/z", value: 1 }]),
      ["globals"],
    ],
  ])("%s moves", (_what, change, moved) => {
    const store = storeOf([web, db], { web: "{ x: 1 }" });
    const before = digests(store);
    change(store);
    const after = digests(store);
    expect(Object.keys(after).filter((key) => after[key] !== before[key])).toEqual(moved);
  });
});

describe("ConfigMap content is judged before it comes into force", () => {
  const schema = "type: object\nproperties: {size: {type: integer}, own: {}, from: {}}\n";
  const on = moduleOf("web", { own: true, schema });
  const off = moduleOf("db", { schema });
  const judge = (data: Record<string, string>): string[] => {
    const store = storeOf([on, off]);
    return checkConfig(store, {
      name: "addon-operator",
      config: parsed(store, data),
      overlay: undefined,
    }).map(({ key, message }) => `${key} ${message}`);
  };
  // Files are judged together with the ConfigMap; what only files say is not the ConfigMap's fault.
  it.each([
    ["good", { web: "{ size: 1 }" }, 0],
    ["a section that breaks its schema", { web: "{ size: big }" }, 1],
    ["the section of a module that is off", { db: "{ size: big }" }, 0],
    ["of one that this content switches on", { db: "{ size: big }", dbEnabled: "true" }, 1],
    ["of one that this content switches off", { web: "{ size: big }", webEnabled: "false" }, 0],
    ["what does not parse", { global: "{ broken", db: "{ broken" }, 2],
    ["every section that is wrong", { web: "{ size: big }", db: "{ size: big }", dbEnabled: "true" }, 2],
  ])("%s", (_what, data, problems) => {
    const found = judge(data);
    expect({ found, count: found.length }).toMatchObject({ count: problems });
  });
});

it("a public chart's values cannot be a list", () => {
  const web: Module = { ...moduleOf("web", { own: true }), chart: "root" };
  expect(explainInvalidValues(storeOf([web], { web: "- 1" }), web)).toMatchObject({
    key: "web",
    message: "is a list",
  });
  expect(explainInvalidValues(storeOf([web], { web: "a: 1" }), web)).toBeUndefined();
  const own: Module = { ...web, chart: "own" };
  expect(explainInvalidValues(storeOf([own], { web: "- 1" }), own)).toBeUndefined();
});

it("a default that breaks its own schema names the schema file, unless a file or the ConfigMap is wrong, too", () => {
  const schema =
    "type: object\nproperties: {own: {}, from: {}, size: {type: integer, default: big}, host: {type: string}}\n";
  const web = moduleOf("web", { own: true, schema });
  const message = "web/size: must be integer; set in config schema default: web.yaml";
  const remedy = "correct the default in the schema";
  expect(explainInvalidValues(storeOf([web]), web)).toEqual({ file: "web.yaml", message, remedy });
  const both = explainInvalidValues(storeOf([web], { web: "host: 1" }), web);
  expect(both).toMatchObject({
    file: "web/values.yaml",
    message: expect.stringContaining(message) as string,
  });
});

describe("who is to blame for values that break the config schema", () => {
  const schema =
    "type: object\nrequired: [host]\nproperties: {host: {type: string}, size: {type: integer}, own: {}, from: {}, list: {items: {type: integer}}}\n";
  const text = "web:\n  own: 1\n  size: big\n";
  const lines = (file: string, said: string) => (pointer: string) => {
    const line = findKeyLine(said, pointer.split("/").slice(1));
    return line === undefined ? undefined : `${file}, line ${line}`;
  };
  const web = (section: JsonObject): Module => ({
    ...moduleOf("web", { own: true, schema }),
    own: { file: "web/values.yaml", section, enabled: true, findPosition: lines("web/values.yaml", text) },
  });
  const judge = (section: JsonObject, data: Record<string, string>, overlay?: Record<string, string>) => {
    const module = web(section);
    const store = storeOf([module]);
    const config = parsed(store, data);
    const over = overlay === undefined ? undefined : parsed(store, overlay);
    const refused = checkConfig(store, { name: "cm", config, overlay: over }).map(
      ({ file, key, message }) => `${file}: ${key}: ${message}`,
    );
    store.setConfig(config, over);
    return { refused, invalid: explainInvalidValues(store, module)?.message };
  };

  const MISSING = "missing property `host`: set web.host in ConfigMap addon-operator, key web";

  it.each<readonly [string, JsonObject, Record<string, string>, string[], string | undefined]>([
    ["a required key that is unset", {}, {}, [], MISSING],
    ["one unset beside a section", {}, { web: "own: 2" }, [], MISSING],
    [
      "a wrong value in the module's file",
      { host: "a", size: "big" },
      { web: "own: 2" },
      [],
      "web/size: must be integer; set in web/values.yaml, line 3",
    ],
    [
      "a wrong value in the ConfigMap",
      { host: "a" },
      { web: "size: big" },
      ["ConfigMap cm: web/size: must be integer"],
      "web/size: must be integer; set in ConfigMap addon-operator, key web",
    ],
    [
      "a wrong value in the ConfigMap over one in the file",
      { host: "a", size: "big" },
      { web: "size: huge" },
      ["ConfigMap cm: web/size: must be integer"],
      "web/size: must be integer; set in ConfigMap addon-operator, key web",
    ],
    [
      "a required key that the ConfigMap takes away",
      { host: "a" },
      { web: "host: null" },
      ["ConfigMap cm: web/host: missing property `host`"],
      MISSING,
    ],
    [
      "an item of a list",
      { host: "a" },
      { web: "list: [1, x]" },
      ["ConfigMap cm: web/list/1: must be integer"],
      "web/list/1: must be integer; set in ConfigMap addon-operator, key web",
    ],
    ["a file that the ConfigMap mends", { size: "big" }, { web: "{host: a, size: 1}" }, [], undefined],
  ])("%s", (...[, section, data, refused, invalid]) => {
    expect(judge(section, data)).toEqual({ refused, invalid });
  });

  it("a missing value is reported with where to set it", () => {
    const store = storeOf([web({ host: "a" })]);
    const candidate = { name: "cm", config: parsed(store, { web: "host: null" }), overlay: undefined };
    const remedy = "set web.host in ConfigMap addon-operator, key web";
    expect(checkConfig(store, candidate)).toMatchObject([{ message: "missing property `host`", remedy }]);
    const idle = web({ host: "a" });
    const off = storeOf([{ ...idle, own: { ...idle.own, enabled: false } }]);
    expect(checkDisabledModules(off, candidate)).toMatchObject([
      { remedy: `the module is disabled; ${remedy} before you enable it` },
    ]);
  });

  it("the overlay is reported by its name", () => {
    expect(judge({ host: "a" }, {}, { web: "size: big" }).refused).toEqual([
      "overlay: key web: web/size: must be integer",
    ]);
  });

  it("a hook is reported by its name, and may leave what was wrong before", () => {
    const module = web({ size: "big" });
    const store = storeOf([module]);
    const put = (path: string, value: Json) =>
      validatePatches(store, "web", {
        config: JSON.stringify({ op: "add", path, value }),
        values: "",
      });
    expect(() => put("/web/own", 2)).not.toThrow();
    expect(() => put("/web/list", ["x"])).toThrow(
      "config values patch makes web invalid: /list/0: must be integer",
    );
    store.addPatches("web", [{ op: "add", path: "/web/size", value: "huge" }], "sets.sh");
    const found = [{ path: "/size", rule: "type", message: "must be integer" }];
    expect(describeViolations(store.sectionOrigins("web"), found)).toBe(
      "web/size: must be integer; set in a patch of hook sets.sh",
    );
  });

  it("global values have nobody else to answer for them: any mistake refuses the content, with its file", () => {
    const store = new ValuesStore();
    const globalSchemas = { config: { file: "g.yaml", text: "properties: {g: {type: string}}" } };
    const findGlobalPosition = () => "values.yaml, line 7";
    store.setTree({
      modules: [],
      globalValues: { g: 1 },
      globalSchemas,
      findGlobalPosition,
    } as unknown as Tree);
    const found = checkConfig(store, { name: "cm", config: parsed(store, {}), overlay: undefined });
    expect(found).toMatchObject([
      { file: "values.yaml, line 7", key: "global/g", message: "must be string" },
    ]);
  });

  it("global files that would break what is in order do not come into force, until they are mended", () => {
    const store = new ValuesStore();
    const tree = (globalValues: JsonObject, type: string) =>
      ({
        modules: [],
        globalValues,
        globalSchemas: { config: { file: "g", text: `properties: {g: {type: ${type}}}` } },
      }) as unknown as Tree;
    store.setTree(tree({ g: 1 }, "integer"));
    take(store, {});
    store.setTree(tree({ g: 1 }, "string"));
    expect(store.globalProblems).toEqual(["global/g: must be string; set in modules/values.yaml"]);
    expect(checkConfig(store, { name: "cm", config: parsed(store, {}), overlay: undefined })).toEqual([]);
    store.setTree(tree({ g: "b" }, "integer"));
    expect(store.mergedSection("global").values).toEqual({ g: 1 });
    store.setTree(tree({ g: "b" }, "string"));
    expect(store.globalProblems).toEqual([]);
    expect(store.mergedSection("global").values).toEqual({ g: "b" });
  });
});

it("keeps the text of a small section in a memory of its own, not in one that other texts share", () => {
  const web = moduleOf("web");
  const { values } = buildValuesFiles(storeOf([web]), web, undefined);
  const kept = values.filter((piece) => /^\{./.test(String(piece)) && String(piece).endsWith("}"));
  expect(kept.map(String)).toEqual(['{"g":1}', '{"from":"common","own":1}']);
  for (const { buffer, byteLength } of kept) expect(buffer.byteLength).toBe(byteLength);
});
