import { describe, expect, it } from "vitest";

import type { Json, Section } from "../../src/base/model/index.ts";
import { compileSchemas, mergeSectionLayers, explainOrigins } from "../../src/values/index.ts";
import type { MergedValues, PatchOperation, SectionInput } from "../../src/values/index.ts";

interface Given extends Partial<Omit<SectionInput, "schemas">> {
  readonly configSchema?: string;
  readonly valuesSchema?: string;
}

function inputOf({ configSchema, valuesSchema, ...layers }: Given): SectionInput {
  const schemas = compileSchemas({
    ...(configSchema === undefined ? {} : { config: { file: "config-values.yaml", text: configSchema } }),
    ...(valuesSchema === undefined ? {} : { values: { file: "values.yaml", text: valuesSchema } }),
  });
  return { schemas, ...layers };
}

const merged = (given: Given): MergedValues => mergeSectionLayers(inputOf(given));
const add = (path: string, value: Json): PatchOperation => ({ op: "add", path, value });

describe("effective", () => {
  const OPEN = "additionalProperties: true";

  it("lets later layers win, in the documented order", () => {
    const all: Given = {
      configSchema: `{${OPEN}, properties: {a: {default: schema}}}`,
      common: { a: "common" },
      own: { a: "own" },
      config: { a: "config" },
      overlay: { a: "overlay" },
      valuesSchema: `{${OPEN}, properties: {a: {default: values}}}`,
      patches: [add("/m/a", "patch")],
    };
    const order = ["patches", "overlay", "config", "own", "common", "configSchema"] as const;
    const left: Given = { ...all };
    const seen: Json[] = [];
    for (const layer of order) {
      seen.push((merged(left).values as Record<string, Json>)["a"] ?? null);
      delete (left as Record<string, unknown>)[layer];
    }
    seen.push((merged(left).values as Record<string, Json>)["a"] ?? null);
    expect(seen).toEqual(["patch", "overlay", "config", "own", "common", "schema", "values"]);
  });

  it("merges maps and replaces lists and scalars", () => {
    const { values } = merged({
      common: { m: { a: 1 }, l: [1, 2] },
      own: { m: { b: 2 } },
      config: { l: [3] },
    });
    expect(values).toEqual({ m: { a: 1, b: 2 }, l: [3] });
  });

  it("knows sections that are lists", () => {
    expect(merged({ common: [1], config: [2, 3], patches: [add("/m/-", 4)] }).values).toEqual([2, 3, 4]);
  });

  it("is an empty map without any layer", () => {
    expect(merged({})).toEqual({ config: {}, values: {}, helmValues: {} });
  });

  it("fills defaults around what files and the ConfigMap say", () => {
    const { config, values } = merged({
      configSchema: "{properties: {a: {default: {}, properties: {b: {default: 1}, c: {}}}}}",
      own: { a: { c: 2 } },
    });
    expect(config).toEqual({ a: { b: 1, c: 2 } });
    expect(values).toEqual({ a: { b: 1, c: 2 } });
  });

  it("shows defaults of the values schema to hooks, not to the config schema", () => {
    const { config, values } = merged({
      configSchema: "{properties: {a: {}}}",
      valuesSchema: "{x-extend: {schema: config-values.yaml}, properties: {b: {default: 1}}}",
      config: { a: 1 },
    });
    expect(config).toEqual({ a: 1 });
    expect(values).toEqual({ a: 1, b: 1 });
  });

  describe("null in the ConfigMap", () => {
    const given: Given = {
      configSchema: "{properties: {a: {type: string, default: d}, b: {default: {x: 1}}, c: {}}}",
      own: { a: "own", c: { d: 1, e: 2 } },
      config: { a: null, b: null, c: { d: null } },
    };

    it("removes the key for hooks and validation, and keeps defaults away", () => {
      const { config, values } = merged(given);
      expect(values).toEqual({ c: { e: 2 } });
      expect(config).toEqual({ c: { e: 2 } });
      expect(inputOf(given).schemas.validateConfig(config)).toEqual([]);
    });

    it("is passed to helm", () => {
      expect(merged(given).helmValues).toEqual({ a: null, b: null, c: { d: null, e: 2 } });
    });

    it("gives way to what a hook patches", () => {
      expect(merged({ ...given, patches: [add("/m/a", "hook")] }).helmValues).toMatchObject({ a: "hook" });
    });

    it("cuts off what files say below, also when the overlay fills the place again", () => {
      const { values } = merged({ own: { a: { x: 1 } }, config: { a: null }, overlay: { a: { y: 2 } } });
      expect(values).toEqual({ a: { y: 2 } });
    });
  });

  it("keeps null that a hook patched, and null in lists", () => {
    const { values } = merged({ config: { l: [null] }, patches: [add("/m/a", null)] });
    expect(values).toEqual({ l: [null], a: null });
  });

  it("changes no layer and shares what no layer touched", () => {
    const own = { a: { big: [1] }, b: { c: 1 } };
    const before = JSON.stringify(own);
    const { values } = merged({ own, config: { b: { c: 2 } }, patches: [add("/m/b/d", 1)] });
    expect((values as typeof own).a).toBe(own.a);
    expect(JSON.stringify(own)).toBe(before);
  });

  describe("keys that only the values schema knows", () => {
    const configSchema = "{properties: {a: {}, m: {properties: {x: {}}}}}";
    const valuesSchema =
      "{x-extend: {schema: config-values.yaml}, properties: {b: {}, m: {properties: {x: {}, z: {}}}}}";
    const judge = (layers: Given): string[] => {
      const input = inputOf({ configSchema, valuesSchema, ...layers });
      return input.schemas.validateConfig(mergeSectionLayers(input).config).map(({ path }) => path);
    };

    it("are no error in files", () => {
      expect(judge({ own: { a: 1, b: 1, m: { z: 1 } }, config: { a: 2 } })).toEqual([]);
    });

    it("are errors in the ConfigMap", () => {
      expect(judge({ config: { b: 1, m: { z: 1 } } })).toEqual(["/b", "/m/z"]);
    });

    it("are errors where neither schema knows them", () => {
      expect(judge({ own: { c: 1 } })).toEqual(["/c"]);
    });

    it("reach hooks and helm all the same", () => {
      const { values } = merged({ configSchema, valuesSchema, own: { b: 1 } });
      expect(values).toEqual({ b: 1 });
    });
  });
});

describe("explain", () => {
  it("names for each leaf the layer that set it", () => {
    const origins = explainOrigins(
      inputOf({
        configSchema: "{additionalProperties: true, properties: {a: {default: 1}}}",
        valuesSchema: "{additionalProperties: true, properties: {b: {default: 1}}}",
        common: { c: 1, d: 1, m: { x: 1, y: 1 } },
        own: { d: 2, l: [1, 2] },
        config: { m: { y: 2 }, f: 1, g: null },
        overlay: { f: 2 },
        patches: [add("/m/h", { i: 1 }), add("/m/l/-", 3), add("/m/m/x", 1)],
      }),
    );
    expect(Object.fromEntries(origins)).toEqual({
      "/a": "config schema default",
      "/b": "values schema default",
      "/c": "modules/values.yaml",
      "/d": "module values.yaml",
      "/l": "hook patch",
      "/m/x": "hook patch",
      "/m/y": "ConfigMap",
      "/f": "overlay",
      "/h/i": "hook patch",
    });
  });

  it("names the place of a layer where it is known", () => {
    const input = inputOf({ common: { c: 1 }, config: { f: 1 }, patches: [add("/m/h", 1), add("/m/i", 1)] });
    const hookOf = (path: string) => (path === "/h" ? "hooks/a.sh" : undefined);
    expect(
      Object.fromEntries(
        explainOrigins(input, { "modules/values.yaml": "/m/values.yaml", "hook patch": hookOf }),
      ),
    ).toEqual({
      "/c": "modules/values.yaml: /m/values.yaml",
      "/f": "ConfigMap",
      "/h": "hook patch: hooks/a.sh",
      "/i": "hook patch",
    });
  });

  it("names the layer of a section that is a list", () => {
    const section: Section = [1];
    expect(Object.fromEntries(explainOrigins(inputOf({ config: section })))).toEqual({ "": "ConfigMap" });
  });
});
