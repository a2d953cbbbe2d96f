import { describe, expect, it } from "vitest";

import { ProblemError } from "../../../src/base/model/index.ts";
import type { Json } from "../../../src/base/model/index.ts";
import {
  CONFIG_MAP_LIMIT,
  applyJsonPatch,
  compileSchemas,
  patchConfigMapKey,
  parseCommonValues,
  parseConfigMap,
  parseModuleValues,
  parsePatch,
  parsePatches,
} from "../../../src/values/index.ts";

const problemsOf = (fn: () => unknown): unknown => {
  try {
    fn();
  } catch (error) {
    if (error instanceof ProblemError) return error.problems;
    throw error;
  }
  throw new Error("was accepted");
};

describe("what is wrong with a patch is reported", () => {
  it.each([
    ['{"op":"add","path":"/m/a"', "malformed JSON in the value that starts at character 1"],
    [' {"op":"remove","path":"/m/a"} \n[}', "malformed JSON in the value that starts at character 33"],
    ["\uFEFF\r\n\thello", "malformed JSON in the value that starts at character 5"],
    [`${"[".repeat(2000)}${"]".repeat(2000)}`, "nested"],
    ["null", "a patch operation must be an object"],
    ['"a b"', "a patch operation must be an object"],
    ["true so", "malformed JSON in the value that starts at character 1"],
    ['{"op":"remove","path":""}', 'a patch operation needs a "path"'],
    ['{"op":"remove","path":5}', 'a patch operation needs a "path"'],
    ['{"op":"move","path":"/m/a"}', 'a patch operation needs a "from"'],
    ['{"op":"add","path":"/m/a"}', "/m/a: the operation needs a value"],
    ['{"op":5,"path":"/m/a"}', "/m/a: op must be one of add, remove, replace, move, copy, test"],
    [
      '{"op":"add","path":"/m/a","value":{"b":[1e999]}}',
      "a number of the patch is too large for a float of 64 bits",
    ],
    [
      String.raw`[{"op":"add","path":"/m/a","value":{"b/c":["ok","\ud800 x"]}}]`,
      "/m/a/b~1c/1: contains half a surrogate pair, which is no character: cut texts between characters",
    ],
    [
      String.raw`{"op":"test","path":"/m/a","value":[{"\uDFFF":1}]}`,
      "/m/a/0/\ufffd: contains half a surrogate pair",
    ],
    [
      String.raw`{"op":"remove","path":"/m/\uD83D"}`,
      "the path of an operation: contains half a surrogate pair",
    ],
    ['{"op":"remove","path":"/m/~"}', '/m/~: "~" must be written "~0"'],
    ['{"op":"remove","path":"/m/a/__proto__"}', '/m/a/__proto__: "__proto__" is not allowed in a path'],
    ['{"op":"remove","path":"/other"}', "/other: a hook of this module may patch /m/… only"],
    ['{"op":"copy","from":"/x/b","path":"/m/a"}', "/x/b: a hook of this module may patch /m/… only"],
  ])("%j", (text, reported) => {
    expect(() => parsePatch(text, "m")).toThrow(reported);
  });

  it("keeps whole surrogate pairs", () => {
    const { operations } = parsePatch(String.raw`{"op":"add","path":"/m/a","value":"\ud83d\ude00"}`, "m");
    expect(operations).toEqual([{ op: "add", path: "/m/a", value: "😀" }]);
  });

  it("keeps integers of 64 bits, and reads other numbers as helm does", () => {
    const value =
      "[1234567890123456789,-9223372036854775808,18446744073709551616,1.0,-0,1e3,0.12345678901234567890]";
    const { operations } = parsePatch(`{"op":"add","path":"/m/a","value":${value}}`, "m");
    expect(JSON.stringify(operations)).toContain(
      '"value":[1234567890123456789,-9223372036854775808,18446744073709552000,1,0,1000,0.12345678901234568]',
    );
    const copied = applyJsonPatch({}, [...operations, { op: "copy", from: "/m/a", path: "/m/b" }]);
    expect(JSON.stringify(copied)).toBe(
      JSON.stringify({ a: 1, b: 1 }).replaceAll(
        "1",
        "[1234567890123456789,-9223372036854775808,18446744073709552000,1,0,1000,0.12345678901234568]",
      ),
    );
  });

  it.each([
    ['{"op":"add","path":"/aEnabled","value":1}', "/aEnabled: the value of a flag must be true or false"],
    ['{"op":"copy","from":"/bEnabled","path":"/aEnabled"}', "/aEnabled: the value of a flag must be"],
    [
      '{"op":"remove","path":"/Enabled"}',
      "/Enabled: a global hook may patch /global/… and /<module>Enabled only",
    ],
    ['{"op":"copy","from":"/m/x","path":"/global/x"}', "/m/x: a global hook may patch"],
  ])("of a global hook: %j", (text, reported) => {
    expect(() => parsePatch(text, "global")).toThrow(reported);
  });

  it.each([
    [{ config: "{", values: "" }, "the file at CONFIG_VALUES_JSON_PATCH_PATH is refused: malformed JSON"],
    [
      { config: String.raw`{"op":"add","path":"/global/a","value":"\ud800"}`, values: "" },
      "the file at CONFIG_VALUES_JSON_PATCH_PATH is refused: /global/a: contains half a surrogate pair",
    ],
    [
      { config: "", values: String.raw`{"op":"add","path":"/global/a","value":"\ud800"}` },
      "the file at VALUES_JSON_PATCH_PATH is refused: /global/a: contains half a surrogate pair",
    ],
    [{ config: "", values: "[" }, "the file at VALUES_JSON_PATCH_PATH is refused: malformed JSON"],
  ])("with the file: %j", (texts, reported) => {
    expect(() => parsePatches(texts, "global")).toThrow(reported);
  });

  it("with the dotted path that was meant", () => {
    const { warnings } = parsePatch('{"op":"copy","from":"m.a","path":"m.b~"}', "m");
    expect(warnings).toEqual([
      'path "m.b~" has no slash; taken as "/m/b~0"',
      'from "m.a" has no slash; taken as "/m/a"',
    ]);
  });

  it("by an error of its own name", () => {
    expect(() => parsePatch("x", "global")).toThrow(expect.objectContaining({ name: "PatchError" }));
  });

  it("and flags may be texts", () => {
    const said = (value: string) => `{"op":"add","path":"/${value}Enabled","value":"${value}"}`;
    const { flags } = parsePatch(said("true") + said("false"), "global");
    expect([...flags]).toEqual([
      ["true", true],
      ["false", false],
    ]);
  });

  it("and a test of a flag says nothing", () => {
    const { flags, operations } = parsePatch('{"op":"test","path":"/aEnabled","value":true}', "global");
    expect([[...flags], operations]).toEqual([[], []]);
  });

  it.each([
    ['{"op":"remove","path":"/m/b"}', "remove /m/b: there is nothing at this path"],
    ['{"op":"test","path":"/m/a","value":2}', "test /m/a: the value there is another one"],
    ['{"op":"move","from":"/m/b","path":"/m/c"}', "move /m/c: there is nothing at /m/b"],
    ['{"op":"move","from":"/m/o","path":"/m/o/x"}', "move /m/o/x: a value cannot be moved into itself"],
    ['{"op":"add","path":"/m/x~1y/b","value":1}', "add /m/x~1y/b: there is no map or list at /m/x~1y"],
    ['{"op":"add","path":"/m/l/3","value":1}', "add /m/l/3: the index is outside the list"],
    ['{"op":"move","from":"/m/l/0","path":"/m/l/2"}', "move /m/l/2: the index is outside the list"],
    ['{"op":"add","path":"/m","value":1}', "a section must be a map or a list"],
    ['{"op":"add","path":"/m","value":null}', "a section must be a map or a list"],
  ])("when it does not fit: %s", (text, reported) => {
    const { operations } = parsePatch(text, "m");
    expect(() => applyJsonPatch({ a: 1, o: {}, l: [1, 2] }, operations)).toThrow(reported);
  });

  it("when its operations nest too deep together", () => {
    const deep = (levels: number): Json =>
      JSON.parse(`${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`) as Json;
    const at = (levels: number): string => `/m${"/a".repeat(levels)}`;
    const one = { op: "add", path: "/m/a", value: deep(150) } as const;
    expect(() => applyJsonPatch({}, [one])).not.toThrow();
    expect(() => applyJsonPatch({}, [one, { op: "add", path: at(151), value: deep(1000) }])).toThrow(
      "the patched section",
    );
  });
});

describe("what is wrong with values is reported, and how to mend it", () => {
  const own = (text: string) => () => parseModuleValues(text, "values.yaml", { valuesKey: "one" });
  const file = "values.yaml";

  it.each<[string, unknown[]]>([
    ["a: [", [{ file, key: "line 1, column 5", message: expect.stringContaining("not valid YAML: ") }]],
    ["- a", [{ file, message: "must be a map", remedy: "write `key: value` pairs" }]],
    [
      "one: 5",
      [
        {
          file,
          key: "one",
          message: "a section must be a map or a list",
          remedy: 'only "false" may stand alone',
        },
      ],
    ],
    [
      "oneEnabled: 5",
      [{ file, key: "oneEnabled", message: "must be true or false", remedy: 'write "true" or "false"' }],
    ],
  ])("values.yaml with %s", (text, wanted) => {
    expect(problemsOf(own(text))).toEqual(wanted);
  });

  it("all of modules/values.yaml at once", () => {
    const text = "global: 1\none: 5\ntwoEnabled: maybe\nthree: {}";
    expect(problemsOf(() => parseCommonValues(text, file))).toEqual([
      expect.objectContaining({ key: "one" }),
      expect.objectContaining({ key: "twoEnabled" }),
      { file, key: "global", message: "must be a map" },
    ]);
  });

  it.each([
    ["one: false\noneEnabled: true", true],
    ['one: "false"\noneEnabled: "true"', true],
    ["one: false\noneEnabled: false", false],
    ["one: {}\noneEnabled: true", false],
  ])("a flag that says something else than its section: %j", (text, warns) => {
    const warnings = warns ? [`${file}: one is false, but oneEnabled is true; the flag counts`] : [];
    const { byKey, warnings: ofCommon } = parseCommonValues(text, file);
    expect(own(text)().warnings).toEqual(warnings);
    expect(ofCommon).toEqual(warnings);
    expect(byKey.get("one")?.enabled).toBe(own(text)().enabled);
  });

  it("duplicate keys, as warnings", () => {
    const text = "one: {}\none: {}\n";
    const said = [`${file}: line 2: key "one" was already set in line 1; the last one wins`];
    expect(own(text)().warnings).toEqual(said);
    expect(parseCommonValues(text, file).warnings).toEqual(said);
    const parsed = parseConfigMap("ConfigMap cm", { one: "a: 1\na: 2" }, [{ valuesKey: "one" }]);
    expect(parsed.warnings).toEqual([expect.stringContaining('ConfigMap cm: one: line 2: key "a"')]);
  });

  it("keys of modules/values.yaml that are no flags", () => {
    const { byKey, global } = parseCommonValues("global:\nEnabled: false\noneEnabled: {a: 1}\ntwo: ''", file);
    expect(global).toBeUndefined();
    expect([...byKey]).toEqual([
      ["Enabled", { section: undefined, enabled: false }],
      ["oneEnabled", { section: { a: 1 }, enabled: undefined }],
      ["two", { section: undefined, enabled: undefined }],
    ]);
  });

  it("by file and line", () => {
    const { findPosition } = own("one:\n  a:\n    b/c: 1\n")();
    expect(findPosition("/one/a/b~1c")).toBe("values.yaml, line 3");
    expect(findPosition("/one/z")).toBeUndefined();
  });
});

describe("what is wrong with the ConfigMap is reported, and how to mend it", () => {
  const edit = (data: Record<string, string>, key = "one", value: Json = 1) =>
    problemsOf(() =>
      patchConfigMapKey({
        file: "ConfigMap cm",
        data,
        key,
        operations: [{ op: "add", path: `/${key}/a`, value }],
      }),
    );

  it("before a text is written that cannot be read again", () => {
    const message = expect.stringContaining("not valid YAML");
    expect(edit({}, "one", "\ud800 x")).toEqual([
      { file: "ConfigMap cm", key: "one, line 1, column 7", message },
    ]);
  });

  it("before it is written", () => {
    const file = "ConfigMap cm";
    expect(edit({ one: "a: [" })).toEqual([
      { file, key: "one, line 1, column 5", message: expect.stringContaining("not valid YAML") },
    ]);
    expect(edit({ one: "false" })).toEqual([
      {
        file,
        key: "one",
        message: "a section that is false cannot be patched",
        remedy: 'write oneEnabled: "false" instead',
      },
    ]);
    expect(edit({ global: "- a" }, "global")).toEqual([{ file, key: "global", message: "must be a map" }]);
  });

  it("when it would grow too large", () => {
    const room = CONFIG_MAP_LIMIT - "a: 1\n".length;
    expect(() => edit({ two: "x".repeat(room) })).toThrow("was accepted");
    expect(edit({ two: "x".repeat(room + 1) })).toEqual([
      {
        file: "ConfigMap cm",
        key: "one",
        message: "would have 5 bytes, and the whole ConfigMap 1048577 of at most 1048576",
        remedy: "keep large values elsewhere, e.g. in a Secret that the hook reads",
      },
    ]);
  });

  it("key by key when it is read", () => {
    const data = { global: "5", one: "5", oneMaintenance: "Always", oneProtected: "~", twoMaintenance: "~" };
    const parsed = parseConfigMap("ConfigMap cm", data, [{ valuesKey: "one" }, { valuesKey: "two" }]);
    expect(parsed.problems.map(({ key, message, remedy }) => [key, message, remedy])).toEqual([
      ["global", "must be a map", "write `key: value` pairs"],
      ["one", "a section must be a map or a list", 'only "false" may stand alone'],
      ["oneMaintenance", "unknown maintenance mode", "write NoResourceReconciliation, or nothing"],
    ]);
    expect(parsed.settings.size).toBe(0);
  });
});

it("what a schema refuses is reported without the value", () => {
  const text = `{required: [r], properties: {r: {}, e: {enum: [a, 1, null]}, t: {type: string},
    d: {format: duration}, c: {format: cidr}, m: {format: mac}, l: {items: {properties: {x: {}}}}}}`;
  const schemas = compileSchemas({ config: { file: "c", text } });
  const judge = (value: Json): string[] =>
    schemas.validateConfig(value).map(({ path, message }) => `${path} ${message}`);
  expect(judge({ e: 2, t: 1, "o/p": 1, l: [{ y: 1 }] })).toEqual([
    "/r is required",
    '/e must be one of "a", 1, null',
    "/t must be string",
    "/o~1p is not declared in the schema (additionalProperties: false)",
    "/l/0/y is not declared in the schema (additionalProperties: false)",
  ]);
  const formats = (d: string, c: string, m: string): number => judge({ r: 1, d, c, m }).length;
  for (const [d, c, m] of [
    ["1h", "10.0.0.0/8", "00:1b:44:11:3a:b7"],
    ["P1Y2M3W4DT5H6M7S", "fe80::/10", "00-1B-44-11-3A-B7"],
    ["PT5H", "1.2.3.4/32", "00:1b:44:11:3a:b7"],
    ["P12D", "::/0", "00:1b:44:11:3a:b7"],
  ] as const)
    expect(formats(d, c, m)).toBe(0);
  for (const [d, c, m] of [
    ["P", "10.0.0.0", "00:1b:44:11:3a"],
    ["PT", "10.0.0.0/8888", "00:1b:44:11:3a:b7:00"],
    ["xP1D", "x10.0.0.0/8", "x00:1b:44:11:3a:b7"],
    ["P1D2", "10.0.0.0/8x", "00:1b:44:11:3a:bg"],
  ] as const)
    expect(formats(d, c, m)).toBe(3);
});
