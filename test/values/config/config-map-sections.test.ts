import { describe, expect, it } from "vitest";

import { KnownSecrets } from "../../../src/base/index.ts";
import type { Json, Module, Section, Tree } from "../../../src/base/model/index.ts";
import {
  ValuesStore,
  checkConfig,
  checkDisabledModules,
  checkPatchedConfig,
  parseConfigMap,
  patchSections,
  findSection,
  withSection,
} from "../../../src/values/index.ts";

const SCHEMA = `
type: object
properties:
  size: {type: integer}
  token: {type: string, writeOnly: true}
  mode: {type: string, default: fast}
`;

function moduleOf(
  name: string,
  change: Partial<Record<"common" | "own", Section>> & { schema?: string; on?: boolean } = {},
): Module {
  return {
    name,
    valuesKey: name,
    common: { file: "modules/values.yaml", section: change.common, enabled: undefined },
    own: { file: `${name}/values.yaml`, section: change.own, enabled: change.on },
    schemas: change.schema === undefined ? {} : { config: { file: `${name}.yaml`, text: change.schema } },
  } as unknown as Module;
}

function storeOf(modules: readonly Module[], globalSchema?: string): ValuesStore {
  const store = new ValuesStore();
  const globalSchemas =
    globalSchema === undefined ? {} : { config: { file: "global.yaml", text: globalSchema } };
  store.setTree({ modules, globalValues: { g: 1 }, globalSchemas } as unknown as Tree);
  return store;
}

const parsed = (store: ValuesStore, data: Record<string, string>) =>
  parseConfigMap("ConfigMap addon-operator", data, store.modules());

const add = (path: string, value: Json) => ({ op: "add", path, value }) as const;

describe("where each leaf of a section comes from", () => {
  it("names the layer and its file, key or hook", () => {
    const web = moduleOf("web", { common: { a: 1, b: 1 }, own: { b: 2, c: 2 }, schema: SCHEMA });
    const store = storeOf([web]);
    store.setConfig(parsed(store, { web: "{ c: 3, d: 3 }" }), parsed(store, { web: "{ e: 4 }" }));
    store.addPatches("web", [add("/web/f", 5)], "hooks/fill.sh");
    expect(store.explainSection("web")).toEqual({
      "/a": "modules/values.yaml: modules/values.yaml",
      "/b": "module values.yaml: web/values.yaml",
      "/c": "ConfigMap: key web",
      "/d": "ConfigMap: key web",
      "/e": "overlay: key web",
      "/f": "hook patch: hooks/fill.sh",
      "/mode": "config schema default: web.yaml",
    });
  });

  it("says of global values that files set them, and nothing of files that it does not know", () => {
    const store = storeOf([], "type: object\nproperties: {mode: {type: string, default: fast}}\n");
    expect(store.explainSection("global")).toEqual({
      "/g": "modules/values.yaml",
      "/mode": "config schema default: global.yaml",
    });
  });
});

describe("what a hook's patch is saved in", () => {
  it("the overlay where there is one, else the ConfigMap; nothing where it says nothing", () => {
    const sections = { config: { a: 1 }, overlay: undefined };
    expect(patchSections(sections, [add("/web/b", 2)], false)).toEqual({
      config: { a: 1, b: 2 },
      overlay: undefined,
    });
    expect(patchSections(sections, [add("/web/b", 2)], true)).toEqual({
      config: { a: 1 },
      overlay: { b: 2 },
    });
    expect(patchSections(sections, [], true)).toEqual(sections);
  });

  it("hooks are shown ConfigMap and overlay as one", () => {
    const store = storeOf([moduleOf("web")]);
    store.setConfig(
      parsed(store, { web: "{ a: 1 }", global: "{ x: 1 }" }),
      parsed(store, { web: "{ b: 2 }" }),
    );
    expect([store.configSection("web"), store.configSection("global")]).toEqual([{ a: 1, b: 2 }, { x: 1 }]);
    expect(store.mergedSection("web").values).toEqual({ a: 1, b: 2 });
  });
});

describe("what is merged once", () => {
  it("sections that an edit leaves alone are the same object, others are not", () => {
    const store = storeOf(["web", "db"].map((name) => moduleOf(name)));
    const config = parsed(store, { web: "{ a: 1 }", db: "{ a: 1 }" });
    store.setConfig(config, undefined);
    const [web, db] = [store.mergedSection("web"), store.mergedSection("db")];
    const edited = withSection(config, "web", { a: 2 });
    store.setConfig(edited, undefined);
    expect(store.mergedSection("db")).toBe(db);
    expect(store.mergedSection("web").values).toEqual({ a: 2 });
    store.setConfig(edited, parsed(store, { db: "{ b: 1 }" }));
    expect(store.mergedSection("db").values).toEqual({ a: 1, b: 1 });
    expect(web.values).toEqual({ a: 1 });
  });

  it("sections in force are not merged again to be judged; others are, with their patches", () => {
    const store = storeOf([moduleOf("web")]);
    const config = parsed(store, { web: "{ a: 1 }" });
    store.setConfig(config, undefined);
    store.addPatches("web", [add("/web/p", 1)]);
    const inForce = { config: findSection(config, "web"), overlay: undefined };
    expect(store.mergeSections("web", inForce)).toBe(store.mergedSection("web"));
    expect(store.mergeSections("web", { ...inForce, config: { a: 2 } }).values).toEqual({ a: 2, p: 1 });
    expect(store.mergeSections("web", { ...inForce, overlay: { b: 2 } }).values).toEqual({
      a: 1,
      b: 2,
      p: 1,
    });
  });

  it("files that are read again are merged anew", () => {
    const store = storeOf([moduleOf("web", { own: { a: 1 } })]);
    store.setConfig(parsed(store, {}), undefined);
    const before = [store.mergedSection("web").values, store.digests.convergeDigests().globals];
    store.setTree({
      modules: [moduleOf("web", { own: { a: 2 }, on: true })],
      globalSchemas: {},
    } as unknown as Tree);
    expect(store.mergedSection("web").values).toEqual({ a: 2 });
    expect(store.digests.convergeDigests().globals).not.toBe(before[1]);
    store.setTree({ modules: [], globalSchemas: {} } as unknown as Tree);
    expect(store.modules()).toEqual([]);
  });
});

describe("schemas of a section", () => {
  it("one that is broken refuses nothing: its module requires action anyway", () => {
    const store = storeOf([moduleOf("web", { schema: "type: [" })]);
    expect(store.schemas("web").validateConfig({ size: "big" })).toEqual([]);
  });

  it("mark what is secret, of the module and of globals", () => {
    const store = storeOf([moduleOf("web", { schema: SCHEMA })], SCHEMA);
    expect([...store.mergedSection("global").secretPaths, ...store.mergedSection("web").secretPaths]).toEqual(
      ["/global/token", "/web/token"],
    );
  });

  it("let the values be learned that must never be shown", () => {
    const secrets = new KnownSecrets();
    const store = new ValuesStore(secrets);
    store.setTree({ modules: [moduleOf("web", { schema: SCHEMA })], globalSchemas: {} } as unknown as Tree);
    store.setConfig(parsed(store, { web: "{ token: hunter2hunter2 }" }), undefined);
    void store.mergedSection("web").values;
    expect(secrets.redact("it is hunter2hunter2")).not.toContain("hunter2");
  });
});

describe("what keeps a module", () => {
  it.each([
    [{}, false, false],
    [{ webMaintenance: "NoResourceReconciliation" }, true, false],
    [{ webProtected: "true" }, false, true],
  ] as const)("%j", (data, suspended, kept) => {
    const [web, db] = [moduleOf("web"), moduleOf("db")];
    const store = storeOf([web, db]);
    expect(store.settings(web)).toEqual({ suspended: false, protected: false });
    store.setConfig(parsed(store, data), undefined);
    expect(store.settings(web)).toEqual({ suspended, protected: kept });
    expect(store.settings(db)).toEqual({ suspended: false, protected: false });
  });

  it("a converge answers to protection of a module that its script may switch off", () => {
    const store = storeOf([{ ...moduleOf("web", { on: true }), enabledScript: "enabled" }]);
    store.setConfig(parsed(store, {}), undefined);
    const before = store.digests.convergeDigests().globalConfig;
    store.setConfig(parsed(store, { webProtected: "true" }), undefined);
    expect(store.digests.convergeDigests().globalConfig).not.toBe(before);
  });

  it.each<readonly [string, boolean, Record<string, string>, boolean]>([
    ["protection of a module that is off", false, { webProtected: "true" }, true],
    ["suspension of a module that is off", false, { webMaintenance: "NoResourceReconciliation" }, true],
    ["protection of a module that is on", true, { webProtected: "true" }, false],
    ["protection of one that is gone", false, { oldProtected: "true" }, true],
  ])("a converge answers to %s: %s", (...[, on, data, moves]) => {
    const store = storeOf([moduleOf("web", { on })]);
    store.setConfig(parsed(store, {}), undefined);
    const before = store.digests.convergeDigests().globalConfig;
    store.setConfig(parsed(store, data), undefined);
    expect(store.digests.convergeDigests().globalConfig !== before).toBe(moves);
  });
});

describe("what is reported of sections that break their schema", () => {
  const on = moduleOf("web", { on: true, schema: SCHEMA });
  const off = moduleOf("db", { schema: SCHEMA });
  const candidate = (store: ValuesStore, data: Record<string, string>, overlay?: Record<string, string>) => ({
    name: "addon-operator",
    config: parsed(store, data),
    overlay: overlay === undefined ? undefined : parsed(store, overlay),
  });

  it("of a module that is on, and of globals: the key and the remedy", () => {
    const store = storeOf([on, off], `${SCHEMA}  g: {}\n`);
    const bad = { web: "{ size: big }", db: "{ size: big }", global: "{ size: big }" };
    const remedy = "fix this key";
    const found = checkConfig(store, candidate(store, bad));
    expect(found.map(({ key }) => key)).toEqual(["global/size", "web/size"]);
    expect(found[0]).toMatchObject({ file: "ConfigMap addon-operator", remedy });
    expect(found[0]?.message).toMatch(/integer/);
  });

  it("of a module that is off: only a warning, where something is written at all", () => {
    const store = storeOf([on, off, moduleOf("own", { own: { size: "big" }, schema: SCHEMA })]);
    const idle = (data: Record<string, string>, overlay?: Record<string, string>) =>
      checkDisabledModules(store, candidate(store, data, overlay)).map(
        ({ key, remedy }) => `${key}: ${remedy}`,
      );
    const reported = "db/size: the module is disabled; fix this key before you enable it";
    expect(idle({ web: "{ size: big }", db: "{ size: big }" })).toEqual([reported]);
    expect(idle({}, { db: "{ size: big }" })).toEqual([reported]);
    expect(idle({ db: "{ size: 1 }" })).toEqual([]);
  });

  it.each<readonly [string, Record<string, string>, Record<string, string> | undefined, readonly string[]]>([
    ["nothing", {}, undefined, []],
    ["another key", { web: "{ mode: slow }" }, undefined, []],
    ["the wrong leaf anew", { web: "{ size: huge }" }, undefined, ["web/size"]],
    ["the wrong leaf anew, in the overlay", {}, { web: "{ size: huge }" }, ["web/size"]],
  ])("of files that are wrong alone, where the ConfigMap says %s", (...[, data, overlay, keys]) => {
    const schema = `${SCHEMA}  name: {type: string}\nrequired: [name]\n`;
    const store = storeOf([moduleOf("web", { on: true, own: { size: "big" }, schema })]);
    expect(checkConfig(store, candidate(store, data, overlay)).map(({ key }) => key)).toEqual(keys);
  });

  it("of an overlay that does not parse", () => {
    const store = storeOf([on]);
    const found = checkConfig(store, candidate(store, { web: "{ size: big }" }, { web: "{ broken" }));
    expect(found.map(({ key }) => key)).toEqual([expect.stringContaining("web, line 1")]);
  });

  it("of a hook's patch: every violation in one line", () => {
    const store = storeOf([on]);
    const sections = { config: { size: "big", token: 5 }, overlay: undefined };
    expect(() => checkPatchedConfig(store, "web", sections)).toThrow(
      /^config values patch makes web invalid: \/.*; \/.*$/,
    );
    expect(() => checkPatchedConfig(store, "web", { config: { size: 5 }, overlay: undefined })).not.toThrow();
  });
});

describe("content with one section replaced", () => {
  it("leaves the others and the original alone", () => {
    const store = storeOf(["web", "db"].map((name) => moduleOf(name)));
    const config = parsed(store, { web: "{ a: 1 }", db: "{ a: 1 }", global: "{ x: 1 }" });
    const displayed = (content: typeof config) =>
      ["global", "web", "db"].map((key) => findSection(content, key));
    expect(displayed(withSection(config, "web", { a: 2 }))).toEqual([{ x: 1 }, { a: 2 }, { a: 1 }]);
    expect(displayed(withSection(config, "web", undefined))).toEqual([{ x: 1 }, undefined, { a: 1 }]);
    expect(displayed(withSection(config, "global", { x: 2 }))).toEqual([{ x: 2 }, { a: 1 }, { a: 1 }]);
    expect(displayed(config)).toEqual([{ x: 1 }, { a: 1 }, { a: 1 }]);
    expect([...withSection(config, "web", undefined).sections.keys()]).toEqual(["db"]);
  });
});
