import { describe, expect, it, test } from "vitest";

import { parseYaml } from "../../src/base/index.ts";
import type { Json, JsonObject } from "../../src/base/model/index.ts";
import {
  applyJsonPatch,
  compileSchemas,
  mergeSectionLayers,
  patchConfigMapKey,
  parseCommonValues,
  parseConfigMap,
  parseModuleValues,
  parsePatch,
} from "../../src/values/index.ts";
import type { MergedValues, PatchOperation } from "../../src/values/index.ts";

/** The sources of one module, as the documents print them. */
class Example {
  readonly key: string;
  common = "";
  own = "";
  data: Record<string, string> = {};
  patches: PatchOperation[] = [];

  constructor(key: string) {
    this.key = key;
  }

  #config() {
    return parseConfigMap("ConfigMap addon-operator", this.data, [{ valuesKey: this.key }]);
  }

  get configFile(): Json {
    const config = this.#config();
    return { global: config.global ?? null, [this.key]: config.sections.get(this.key) ?? null };
  }

  get valuesFile(): Json {
    const config = this.#config();
    const common = parseCommonValues(this.common, "modules/values.yaml");
    const own = parseModuleValues(this.own, "values.yaml", { valuesKey: this.key });
    const schemas = compileSchemas({});
    const merge = (layers: Partial<Parameters<typeof mergeSectionLayers>[0]>): MergedValues =>
      mergeSectionLayers({ schemas, ...layers });
    const section = { common: common.byKey.get(this.key)?.section, own: own.section };
    return {
      global: merge({ common: common.global, config: config.global }).values,
      [this.key]: merge({ ...section, config: config.sections.get(this.key), patches: this.patches }).values,
    };
  }

  patch(text: string): void {
    const values = this.valuesFile as JsonObject;
    const { operations } = parsePatch(text, this.key);
    applyJsonPatch(values[this.key] as JsonObject, operations);
    this.patches.push(...operations);
  }

  patchConfig(text: string): void {
    const { operations } = parsePatch(text, this.key);
    const next = patchConfigMapKey({
      file: "ConfigMap addon-operator",
      data: this.data,
      key: this.key,
      operations,
    });
    if (next.text !== undefined) this.data[this.key] = next.text;
  }
}

describe("layers", () => {
  const example = new Example("simpleModule");
  example.common = "global:\n  param1: value1\n  param2: value2\nsimpleModule:\n  modParam1: value3\n";
  example.own = "simpleModule:\n  modParam1: value1\n  modParam2: value2\n";

  it("merges files, the module's own last", () => {
    expect(example.valuesFile).toEqual({
      global: { param1: "value1", param2: "value2" },
      simpleModule: { modParam1: "value1", modParam2: "value2" },
    });
  });

  it("lets the ConfigMap override, and its false disable a module", () => {
    example.data = {
      global: "param1: newValue\nparam3: valu3\n",
      simpleModule: "modParam2: newValue2\n",
      anotherModule: "false",
    };
    expect(example.valuesFile).toEqual({
      global: { param1: "newValue", param2: "value2", param3: "valu3" },
      simpleModule: { modParam1: "value1", modParam2: "newValue2" },
    });
    const known = [{ valuesKey: "simpleModule" }, { valuesKey: "anotherModule" }];
    expect(parseConfigMap("ConfigMap addon-operator", example.data, known).flags.get("anotherModule")).toBe(
      false,
    );
  });
});

test.each(["toString", "valueOf", "constructor"])(
  "a module whose key is %s is a module like others",
  (key) => {
    const common = parseCommonValues(`${key}Enabled: true`, "modules/values.yaml");
    expect(common.byKey.get(key)).toEqual({ section: undefined, enabled: true });
    expect(parseModuleValues("{}", "values.yaml", { valuesKey: key }).section).toBeUndefined();
  },
);

describe("an example with hooks", () => {
  const example = new Example("someModule");
  example.common = 'global:\n  param1: 100\n  param2: "Yes"\n';
  example.own = 'someModule:\n  param1: "String"\n';
  example.data = { global: "param1: 200\n", someModule: 'param1: "Long string"\nparam2: "FOO"\n' };

  it("generates the printed files", () => {
    expect(example.configFile).toEqual({
      global: { param1: 200 },
      someModule: { param1: "Long string", param2: "FOO" },
    });
    expect(example.valuesFile).toEqual({
      global: { param1: 200, param2: "Yes" },
      someModule: { param1: "Long string", param2: "FOO" },
    });
  });

  it("takes the hook's patch into the ConfigMap", () => {
    example.patchConfig('[{"op":"add", "path":"/someModule/param3", "value":"newValue"}]');
    expect(example.data["global"]).toBe("param1: 200\n");
    expect(parseYaml(example.data["someModule"] ?? "", "").value).toEqual({
      param1: "Long string",
      param2: "FOO",
      param3: "newValue",
    });
    expect(example.configFile).toEqual({
      global: { param1: 200 },
      someModule: { param1: "Long string", param2: "FOO", param3: "newValue" },
    });
    expect(example.valuesFile).toEqual({
      global: { param1: 200, param2: "Yes" },
      someModule: { param1: "Long string", param2: "FOO", param3: "newValue" },
    });
  });
});

const PROJECT = `
type: object
additionalProperties: false
required:
  - project
  - clusterName
minProperties: 2
properties:
  project:
    type: string
  clusterName:
    type: string
  clusterHostname:
    type: string
  discovery:
    type: object
`;

describe("validation", () => {
  const schemas = compileSchemas({ config: { file: "/global/openapi/config-values.yaml", text: PROJECT } });
  const judge = (value: Json): string[] =>
    schemas.validateConfig(value).map(({ path, rule }) => `${path} ${rule}`);

  it("refuses the printed ConfigMap", () => {
    expect(judge({ project: "myProject" })).toEqual(["/ minProperties", "/clusterName required"]);
  });

  it("accepts a valid one, with nothing undeclared in discovery", () => {
    expect(judge({ project: "p", clusterName: "c", discovery: {} })).toEqual([]);
    const discovery = { any: { thing: 1 } };
    expect(judge({ project: "p", clusterName: "c", discovery })).toEqual([
      "/discovery/any additionalProperties",
    ]);
  });

  it("refuses the printed patch (of which the document means {})", () => {
    const patch = '[{"op":"add", "path":"/global/clusterHostname", "value":{}}]';
    const { operations } = parsePatch(patch, "global");
    const patched = applyJsonPatch({ project: "p", clusterName: "c" }, operations);
    expect(judge(patched ?? {})).toEqual(["/clusterHostname type"]);
  });
});

describe("x-extend", () => {
  const config = PROJECT.replace("minProperties: 2\n", "").replace("  discovery:\n    type: object\n", "");
  const values = `
x-extend:
  schema: config-values.yaml
type: object
additionalProperties: false
required:
  - discovery
  - param1
properties:
  discovery:
    type: object
  param1:
    type: string
`;
  const schemas = compileSchemas({
    config: { file: "/global/openapi/config-values.yaml", text: config },
    values: { file: "/global/openapi/values.yaml", text: values },
  });

  it("judges values by the printed effective schema", () => {
    const effectiveSchema = compileSchemas({
      values: {
        file: "effective.yaml",
        text: `
type: object
additionalProperties: false
required: [project, clusterName, discovery, param1]
properties:
  project: {type: string}
  clusterName: {type: string}
  clusterHostname: {type: string}
  discovery: {type: object}
  param1: {type: string}
`,
      },
    });
    const samples: Json[] = [
      {},
      { project: "p", clusterName: "c", discovery: {}, param1: "x" },
      { project: "p", clusterName: "c", clusterHostname: "h", discovery: { a: 1 }, param1: "x" },
      { project: 1, clusterName: "c", discovery: [], param1: 2, other: 1 },
    ];
    for (const sample of samples) {
      const wanted = new Set(
        effectiveSchema.validateValues(sample).map(({ path, rule }) => `${path} ${rule}`),
      );
      expect(new Set(schemas.validateValues(sample).map(({ path, rule }) => `${path} ${rule}`))).toEqual(
        wanted,
      );
    }
    expect(schemas.validateValues(samples[1] ?? null)).toEqual([]);
  });
});

describe("defaults and required fields", () => {
  it("adds discovery where no layer has it", () => {
    const schemas = compileSchemas({
      config: { file: "config-values.yaml", text: "type: object\nproperties: {project: {type: string}}" },
      values: {
        file: "values.yaml",
        text: `
x-extend:
  schema: config-values.yaml
type: object
additionalProperties: false
required:
  - param1
properties:
  discovery:
    type: object
    default:
      {}
  param1:
    type: string
`,
      },
    });
    const input = { schemas, config: { project: "p" } };
    expect(mergeSectionLayers(input).values).toEqual({ project: "p", discovery: {} });
    const present = { schemas, config: { project: "p" }, own: { discovery: { a: 1 } } };
    expect(mergeSectionLayers(present).values).toEqual({ project: "p", discovery: { a: 1 } });
  });

  it("requires fields for helm only", () => {
    const schemas = compileSchemas({
      values: {
        file: "values.yaml",
        text: `
type: object
x-required-for-helm:
  - param1
  - param2
properties:
  param1:
    type: string
  param2:
    type: string
`,
      },
    });
    expect(schemas.validateValues({ param1: "x" })).toEqual([]);
    expect(schemas.validateHelm({ param1: "x" }).map(({ path, rule }) => `${path} ${rule}`)).toEqual([
      "/param2 required",
    ]);
    expect(schemas.validateHelm({ param1: "x", param2: "y" })).toEqual([]);
    expect(schemas.validateValues({ other: 1 })).toHaveLength(1);
  });
});

describe("values of a module", () => {
  const example = new Example("simpleOneModule");
  example.own = "# values.yaml\nsimpleOneModule:\n  param1: value_1\n  param2: value_2\n";
  example.data = {
    global: "globParam1: globalValue1\n",
    simpleOneModule: "param3: value_3\nparam2: newValue_1\n",
  };

  it("gives the hook the printed values", () => {
    expect(example.valuesFile).toEqual({
      global: { globParam1: "globalValue1" },
      simpleOneModule: { param1: "value_1", param2: "newValue_1", param3: "value_3" },
    });
  });

  it("gives helm the printed values after the dotted patch", () => {
    example.patch('{"op": "replace", "path":"simpleOneModule.param2", "value":"patchedValue_2"}');
    expect(example.valuesFile).toEqual({
      global: { globParam1: "globalValue1" },
      simpleOneModule: { param1: "value_1", param2: "patchedValue_2", param3: "value_3" },
    });
  });
});

describe("flags and sections in files", () => {
  const read = (text: string) => parseModuleValues(text, "values.yaml", { valuesKey: "simpleOneModule" });

  it.each([
    ['simpleOneModule: "false"', undefined, false],
    ["simpleOneModule: false", undefined, false],
    ["simpleOneModule: {}", {}, undefined],
    ["simpleOneModule: [1]", [1], undefined],
    ["simpleOneModule: {a: 1}\nsimpleOneModuleEnabled: true", { a: 1 }, true],
    ["simpleOneModuleEnabled: 'false'", undefined, false],
    ["", undefined, undefined],
  ])("%s", (text, section, enabled) => {
    expect(read(text)).toMatchObject({ section, enabled });
  });

  it.each([
    "simpleOneModule: yes",
    "simpleOneModule: 5",
    "simpleOneModule: text",
    "- a",
    "a: [",
    "simpleOneModuleEnabled: 1",
  ])("refuses %s", (text) => {
    expect(() => read(text)).toThrow("values.yaml");
  });

  it("reads flags and sections of modules/values.yaml", () => {
    const { byKey, global } = parseCommonValues(
      "global: {a: 1}\none: {b: 1}\noneEnabled: true\ntwoEnabled: false\nthree: false",
      "v",
    );
    expect(global).toEqual({ a: 1 });
    expect(Object.fromEntries(byKey)).toEqual({
      one: { section: { b: 1 }, enabled: true },
      two: { section: undefined, enabled: false },
      three: { section: undefined, enabled: false },
    });
  });
});
