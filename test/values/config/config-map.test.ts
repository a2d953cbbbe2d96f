import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { digestJson, toYaml } from "../../../src/base/index.ts";
import { mergeLayers, ProblemError } from "../../../src/base/model/index.ts";
import type { Json, JsonObject, Section } from "../../../src/base/model/index.ts";
import {
  CONFIG_MAP_LIMIT,
  PatchError,
  changedKeys,
  patchConfigMapKey,
  diffForOverlay,
  parseConfigMap,
  reparseConfigMap,
  withOverlay,
} from "../../../src/values/index.ts";
import type { ParsedConfig } from "../../../src/values/index.ts";

const KNOWN = [{ valuesKey: "one" }, { valuesKey: "two" }];
const parse = (data: Record<string, string>): ParsedConfig => parseConfigMap("ConfigMap cm", data, KNOWN);

describe("parseConfigMap", () => {
  it("reads every kind of key", () => {
    const parsed = parse({
      global: "a: 1",
      one: "b: [1]",
      two: "- x",
      oneEnabled: "true",
      twoEnabled: '"false"',
      oneMaintenance: "NoResourceReconciliation",
      twoMaintenance: "",
      oneProtected: "true",
      oneDrift: "off",
      twoDrift: "repair",
      other: "x: [",
    });
    expect(parsed.problems).toEqual([]);
    expect(parsed.global).toEqual({ a: 1 });
    expect(Object.fromEntries(parsed.sections)).toEqual({ one: { b: [1] }, two: ["x"] });
    expect(Object.fromEntries(parsed.flags)).toEqual({ one: true, two: false });
    expect(Object.fromEntries(parsed.settings)).toEqual({
      one: { suspended: true, protected: true, driftMode: "off" },
      two: { driftMode: "repair" },
    });
    expect(parsed.unknownKeys).toEqual(["other"]);
  });

  it.each([
    ["NoResourceReconciliation", true, []],
    ["", false, []],
    ["Always", false, ["unknown maintenance mode"]],
  ] as const)("suspends all modules at once: maintenance: %j", (maintenance, isFrozen, problems) => {
    const parsed = parse({ maintenance });
    expect(parsed.isFrozen).toBe(isFrozen);
    expect(parsed.problems.map(({ message }) => message)).toEqual(problems);
    expect(parsed.unknownKeys).toEqual([]);
    expect(changedKeys(parse({}), parsed)).toEqual(isFrozen ? ["maintenance"] : []);
  });

  it("reports a module that is called maintenance from the key", () => {
    const known = [{ valuesKey: "maintenance" }];
    const frozen = parseConfigMap("ConfigMap cm", { maintenance: "NoResourceReconciliation" }, known);
    expect([frozen.isFrozen, frozen.sections.size, frozen.problems]).toEqual([true, 0, []]);
    const section = parseConfigMap("ConfigMap cm", { maintenance: "a: 1" }, known);
    expect([section.isFrozen, section.sections.get("maintenance")]).toEqual([false, { a: 1 }]);
  });

  it("guards what is gone, unless that is plainly off", () => {
    const parsed = parse({
      goneProtected: "true",
      oldMaintenance: "NoResourceReconciliation",
      offProtected: '"false"',
      emptyMaintenance: "",
      oddProtected: "{ [",
      webProtectedBy: "me",
      oneProtected: "true",
    });
    expect(parsed.problems).toEqual([]);
    expect([...parsed.guards]).toEqual(["goneProtected", "oldMaintenance", "oddProtected"]);
  });

  it.each([
    ["an empty text", ""],
    ["null", "~"],
    ["a comment", "# nothing yet"],
    ["an empty map", "{}"],
  ])("takes %s for an empty section", (_, text) => {
    const parsed = parse({ one: text, global: text });
    expect(parsed.problems).toEqual([]);
    expect(parsed.sections.get("one")).toEqual({});
    expect(parsed.global).toEqual({});
  });

  it.each(["false", '"false"', "no", "off"])("takes a section that is %s for the flag", (text) => {
    const parsed = parse({ one: text });
    expect(parsed.flags.get("one")).toBe(false);
    expect(parsed.sections.has("one")).toBe(false);
  });

  it("lets a flag of its own win over a section that is false, in any order", () => {
    expect(parse({ one: "false", oneEnabled: "true" }).flags.get("one")).toBe(true);
    expect(parse({ oneEnabled: "true", one: "false" }).flags.get("one")).toBe(true);
  });

  it("keeps nulls inside of sections", () => {
    expect(parse({ one: "a: ~\nb:" }).sections.get("one")).toEqual({ a: null, b: null });
  });

  it.each([
    ["true as a section", { one: "true" }, "one"],
    ["a number as a section", { one: "5" }, "one"],
    ["a text as a section", { one: "hello" }, "one"],
    ["a list for global", { global: "- a" }, "global"],
    ["false for global", { global: "false" }, "global"],
    ["a flag that is a text", { oneEnabled: "maybe" }, "oneEnabled"],
    ["a flag that is a number", { oneEnabled: "1" }, "oneEnabled"],
    ["a flag that is empty", { oneEnabled: "" }, "oneEnabled"],
    ["a flag that is a map", { oneEnabled: "a: true" }, "oneEnabled"],
    ["an unknown maintenance mode", { oneMaintenance: "Always" }, "oneMaintenance"],
    ["a protection that is a text", { oneProtected: "sure" }, "oneProtected"],
  ])("refuses %s and says where and how to mend it", (_, data, key) => {
    const { problems } = parse(data);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatchObject({ file: "ConfigMap cm", key, remedy: expect.any(String) });
  });

  it("names key, line and column of broken YAML, and goes on with the other keys", () => {
    const parsed = parse({ one: "a: 1\nb: c: d", two: "a: 1" });
    expect(parsed.problems).toEqual([
      expect.objectContaining({ file: "ConfigMap cm", key: "one, line 2, column 5" }),
    ]);
    expect(parsed.sections.get("two")).toEqual({ a: 1 });
  });

  it("never quotes a value", () => {
    const texts = [
      "password: hunter2: x",
      "password: *hunter2x",
      "password: 'hunter2",
      "hunter2",
      "- hunter2\na: b",
    ];
    const displayed = texts.flatMap((one) => parse({ one, oneEnabled: "hunter2" }).problems);
    expect(displayed.length).toBeGreaterThan(texts.length);
    expect(JSON.stringify(displayed).replaceAll("hunter2x", "")).not.toContain("hunter2");
  });

  it("gives the same objects for texts that did not change", () => {
    const before = parse({ one: "a: 1", two: "b: 1" });
    const after = reparseConfigMap({ file: "ConfigMap cm", before }, { one: "a: 1", two: "b: 2" }, KNOWN);
    expect(after.sections.get("one")).toBe(before.sections.get("one"));
    expect(after.sections.get("two")).toEqual({ b: 2 });
  });

  it("reads only what changed of 900 KB", () => {
    const known = Array.from({ length: 200 }, (_, index) => ({ valuesKey: `module${index}` }));
    const section = Object.fromEntries(
      Array.from({ length: 100 }, (_, index) => [`key${index}`, "x".repeat(34)]),
    );
    const data: Record<string, string> = {};
    for (const { valuesKey } of known) data[valuesKey] = toYaml(section);
    expect(Object.values(data).join("").length).toBeGreaterThan(800_000);
    const before = parseConfigMap("ConfigMap big", data, known);
    const edited = { ...data, module77: toYaml({ ...section, key5: "other" }) };
    const after = reparseConfigMap({ file: "ConfigMap big", before }, edited, known);
    expect(changedKeys(before, after)).toEqual(["module77"]);
    const readAgain = [...after.sections].filter(([key, section]) => section !== before.sections.get(key));
    expect(readAgain.map(([key]) => key)).toEqual(["module77"]);
  });
});

describe("changedKeys", () => {
  it("names what differs, by kind", () => {
    const before = parse({ global: "a: 1", one: "a: 1", oneEnabled: "true", twoMaintenance: "" });
    const after = parse({
      global: "a: 1 # same",
      one: "a: 2",
      oneEnabled: "false",
      twoMaintenance: "NoResourceReconciliation",
      twoProtected: "true",
    });
    expect(changedKeys(before, after)).toEqual(["one", "oneEnabled", "twoMaintenance", "twoProtected"]);
  });

  it("sees sections and flags that come and go", () => {
    const full = parse({ global: "a: 1", one: "a: 1", oneEnabled: "true" });
    for (const changes of [changedKeys(parse({}), full), changedKeys(full, parse({}))])
      expect(changes).toEqual(["global", "one", "oneEnabled"]);
  });

  it("is blind to the order of keys and to the style of the YAML", () => {
    const before = parse({ one: "a: 1\nb: {c: [x, 'z']}" });
    const after = parse({ one: '# moved\nb:\n  c: ["x", z]\na: 0x1' });
    expect(changedKeys(before, after)).toEqual([]);
  });

  it("digests are independent of the order of keys", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(digestJson(reversed(value))).toBe(digestJson(value));
      }),
    );
  });
});

function reversed(value: Json): Json {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .map(([key, each]) => [key, reversed(each ?? null)] as const)
      .toReversed(),
  );
}

const name = fc.constantFrom("a", "b", "c", "yes", "0644");
const leaf = fc.oneof(
  fc.constantFrom<Json>(1, "x", "no", true, null, []),
  fc.array(fc.string(), { maxLength: 2 }),
);
const { map } = fc.letrec<{ map: JsonObject }>((tie) => ({
  map: fc.dictionary(name, fc.oneof({ maxDepth: 3 }, leaf, tie("map")), { maxKeys: 3 }),
}));

describe("patchConfigMapKey", () => {
  const write = (data: Record<string, string>, path: string, value: Json) =>
    patchConfigMapKey({
      file: "ConfigMap cm",
      data,
      key: path.split("/")[1] ?? "",
      operations: [{ op: "add", path, value }],
    });

  it("says what one key becomes", () => {
    expect(write({ one: "a: 1\n" }, "/one/b", "0644")).toEqual({
      key: "one",
      text: "a: 1\nb: '0644'\n",
      changed: true,
      section: { a: 1, b: "0644" },
    });
  });

  it("creates a section that is not there, and removes one that goes", () => {
    expect(write({}, "/one/a", 1).text).toBe("a: 1\n");
    const missing = patchConfigMapKey({
      file: "ConfigMap cm",
      data: { one: "a: 1" },
      key: "one",
      operations: [{ op: "remove", path: "/one" }],
    });
    expect(missing).toMatchObject({ text: undefined, changed: true });
  });

  it("leaves the text alone when nothing changes", () => {
    const text = "# a comment\na:   1\n";
    expect(write({ one: text }, "/one/a", 1)).toMatchObject({ changed: false, text });
  });

  it("is read back as it was written", () => {
    fc.assert(
      fc.property(map, map, (section, value) => {
        const next = write({ one: toYaml(section), two: "b" }, "/one/new", value);
        expect(parse({ one: next.text ?? "" }).sections.get("one")).toEqual({ ...section, new: value });
      }),
    );
  });

  it("refuses a key that cannot be read, a section that is false, and a patch that does not fit", () => {
    expect(() => write({ one: "a: [" }, "/one/a", 1)).toThrow(ProblemError);
    expect(() => write({ one: "false" }, "/one/a", 1)).toThrow(ProblemError);
    expect(() => write({ global: "- a" }, "/global/a", 1)).toThrow(ProblemError);
    expect(() => write({ one: "a: 1" }, "/one/x/y", 1)).toThrow(PatchError);
  });

  it("counts bytes against the limit of 1 MiB and names key and size", () => {
    const half = "ü".repeat(CONFIG_MAP_LIMIT / 4);
    expect(() => write({ two: half }, "/one/a", half.slice(10))).not.toThrow();
    expect(() => write({ two: half }, "/one/a", half)).toThrow(/one: would have 52\d{4} bytes.*1048\d{3}/);
  });
});

describe("overlays", () => {
  it("win leaf by leaf, sections only", () => {
    const below = parse({ global: "a: 1\nb: 1", one: "a: {x: 1, z: 1}", oneEnabled: "true" });
    const above = parse({ global: "b: 2", one: "a: {z: 2}", two: "c: 1", oneEnabled: "false" });
    const merged = withOverlay(below, above);
    expect(merged.global).toEqual({ a: 1, b: 2 });
    expect(Object.fromEntries(merged.sections)).toEqual({ one: { a: { x: 1, z: 2 } }, two: { c: 1 } });
    expect(merged.flags.get("one")).toBe(true);
  });

  it("hold what a patch changed, and null for what it removed", () => {
    const next = patchConfigMapKey({
      file: "ConfigMap overlay",
      data: {},
      key: "one",
      configMapSection: { a: 1, b: { c: 1, d: 1 } },
      operations: [
        { op: "remove", path: "/one/a" },
        { op: "add", path: "/one/b/c", value: 2 },
      ],
    });
    expect(next.section).toEqual({ a: null, b: { c: 2 } });
  });

  it("turn what is below into what was wanted", () => {
    fc.assert(
      fc.property(map, map, (below, wanted) => {
        const merged = mergeLayers([below, diffForOverlay(below, wanted)]);
        expect(withoutNulls(merged ?? {})).toEqual(withoutNulls(wanted));
      }),
    );
  });
});

function withoutNulls(value: Json): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const kept = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(kept.map(([key, each]) => [key, withoutNulls(each ?? null)]));
}

describe("mergeLayers", () => {
  /** A key holds either maps or leaves: a leaf between two maps would cut the lower one off. */
  const { steady } = fc.letrec<{ steady: JsonObject }>((tie) => ({
    steady: fc
      .tuple(
        fc.dictionary(name, leaf, { maxKeys: 3 }),
        fc.dictionary(
          name.map((each) => `${each}Map`),
          fc.oneof({ maxDepth: 2 }, fc.constant({}), tie("steady")),
          { maxKeys: 2 },
        ),
      )
      .map(([leaves, maps]) => ({ ...leaves, ...maps })),
  }));
  const layer: fc.Arbitrary<Section | undefined> = fc.option(steady, { nil: undefined });

  it("is associative, knows nothing as neutral, and repeats without effect", () => {
    fc.assert(
      fc.property(layer, layer, layer, (a, b, c) => {
        const left = mergeLayers([mergeLayers([a, b]), c]);
        expect(left).toEqual(mergeLayers([a, mergeLayers([b, c])]));
        expect(left).toEqual(mergeLayers([a, b, c]));
        expect(mergeLayers([undefined, a, undefined])).toEqual(a);
        expect(mergeLayers([a, a])).toEqual(a);
        expect(mergeLayers([a, b, b])).toEqual(mergeLayers([a, b]));
      }),
    );
  });

  it("never changes a layer", () => {
    fc.assert(
      fc.property(map, map, (a, b) => {
        const before = JSON.stringify([a, b]);
        mergeLayers([a, b]);
        expect(JSON.stringify([a, b])).toBe(before);
      }),
    );
  });

  it("replaces lists, scalars and null, and merges maps", () => {
    const merged = mergeLayers([
      { a: [1, 2], b: { c: 1, d: 1 }, e: { f: 1 }, g: 1 },
      { a: [3], b: { c: 2 }, e: null, g: { h: 1 } },
    ]);
    expect(merged).toEqual({ a: [3], b: { c: 2, d: 1 }, e: null, g: { h: 1 } });
  });
});
