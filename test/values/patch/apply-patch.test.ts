import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { Json, Section } from "../../../src/base/model/index.ts";
import {
  PatchError,
  applyJsonPatch,
  compactOperations,
  toStoredOperations,
  parsePatch,
  replayStoredPatches,
} from "../../../src/values/index.ts";
import type { PatchOperation } from "../../../src/values/index.ts";
import { often } from "../../support/stories.ts";

const MODULE = "m";
const GLOBAL = "global";

describe("parsePatch", () => {
  it.each([
    ["one operation", '{"op":"add","path":"/m/a","value":1}', 1],
    ["an array", '[{"op":"add","path":"/m/a","value":1},{"op":"remove","path":"/m/b"}]', 2],
    ["a stream", '{"op":"add","path":"/m/a","value":"}{"}{"op":"remove","path":"/m/b"}', 2],
    ["lines", '{"op":"add","path":"/m/a","value":1}\n\n[{"op":"remove","path":"/m/b"}]\n', 2],
    ["a text with quotes and braces", String.raw`{"op":"add","path":"/m/a","value":"\"]{\\"}[]`, 1],
    ["nothing", " \n", 0],
  ])("reads %s", (_, text, count) => {
    expect(parsePatch(text, MODULE).operations).toHaveLength(count);
  });

  it("knows all six operations", () => {
    const text = ["add", "replace", "test"].map((op) => `{"op":"${op}","path":"/m/a","value":null}`).join("");
    const more = ["move", "copy"].map((op) => `{"op":"${op}","from":"/m/a","path":"/m/b"}`).join("");
    expect(parsePatch(text + more, MODULE).operations.map(({ op }) => op)).toEqual([
      "add",
      "replace",
      "test",
      "move",
      "copy",
    ]);
  });

  it("takes a dotted path without slash, with a warning", () => {
    const parsed = parsePatch('{"op":"replace","path":"m.param2","value":"x"}', MODULE);
    expect(parsed.operations).toEqual([{ op: "replace", path: "/m/param2", value: "x" }]);
    expect(parsed.warnings).toHaveLength(1);
  });

  it.each([
    ["another module", MODULE, '{"op":"add","path":"/other/a","value":1}'],
    ["global from a module hook", MODULE, '{"op":"add","path":"/global/a","value":1}'],
    ["a flag from a module hook", MODULE, '{"op":"add","path":"/mEnabled","value":true}'],
    ["a section from a global hook", GLOBAL, '{"op":"add","path":"/m/a","value":1}'],
    ["a source elsewhere", MODULE, '{"op":"copy","from":"/global/a","path":"/m/a"}'],
    ["the root", MODULE, '{"op":"add","path":"","value":{}}'],
    ["an unknown operation", MODULE, '{"op":"merge","path":"/m/a","value":1}'],
    ["no value", MODULE, '{"op":"add","path":"/m/a"}'],
    ["no path", MODULE, '{"op":"remove"}'],
    ["a prototype", MODULE, '{"op":"add","path":"/m/__proto__/polluted","value":1}'],
    ["a bad escape", MODULE, '{"op":"add","path":"/m/~2","value":1}'],
    ["half a value", MODULE, '{"op":"add","path":"/m/a"'],
    ["a word", MODULE, "hello"],
    ["a flag that is no boolean", GLOBAL, '{"op":"add","path":"/mEnabled","value":"maybe"}'],
    ["something inside a flag", GLOBAL, '{"op":"add","path":"/mEnabled/x","value":true}'],
  ])("refuses %s", (_, rules, text) => {
    expect(() => parsePatch(text, rules)).toThrow(PatchError);
  });

  it("never quotes a value", () => {
    const text =
      '{"op":"add","path":"/m/password","value":"hunter2"} {"op":"nope","path":"/m/a","value":"hunter2"}';
    expect(() => parsePatch(text, MODULE)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining("hunter2") }),
    );
  });

  it("keeps flags of global hooks apart, as booleans or texts; a removal needs no value", () => {
    const text =
      '{"op":"add","path":"/aEnabled","value":"true"}{"op":"replace","path":"/bEnabled","value":false}' +
      '{"op":"remove","path":"/cEnabled"}{"op":"add","path":"/global/x","value":1}';
    const parsed = parsePatch(text, GLOBAL);
    expect([...parsed.flags]).toEqual([
      ["a", true],
      ["b", false],
      ["c", undefined],
    ]);
    expect(parsed.operations).toHaveLength(1);
  });
});

const add = (path: string, value: Json): PatchOperation => ({ op: "add", path, value });
const remove = (path: string): PatchOperation => ({ op: "remove", path });

describe("applyPatch", () => {
  const CASES: readonly (readonly [string, Section | undefined, PatchOperation[], Section | undefined])[] = [
    ["adds", { a: 1 }, [add("/m/b", 2)], { a: 1, b: 2 }],
    ["creates an absent section", undefined, [add("/m/b", 2)], { b: 2 }],
    ["puts a whole section", { a: 1 }, [add("/m", [1])], [1]],
    ["removes a whole section", { a: 1 }, [remove("/m")], undefined],
    ["goes on below a removed section", { a: 1 }, [remove("/m"), add("/m/b", 1)], { b: 1 }],
    ["inserts into a list", { l: [1, 3] }, [add("/m/l/1", 2)], { l: [1, 2, 3] }],
    ["appends to a list", { l: [1] }, [add("/m/l/-", 2)], { l: [1, 2] }],
    ["appends to a section that is a list", [1], [add("/m/-", 2)], [1, 2]],
    ["replaces", { a: 1 }, [{ op: "replace", path: "/m/a", value: 2 }], { a: 2 }],
    ["removes from a list", { l: [1, 2] }, [remove("/m/l/0")], { l: [2] }],
    ["copies", { a: { b: 1 } }, [{ op: "copy", from: "/m/a", path: "/m/c" }], { a: { b: 1 }, c: { b: 1 } }],
    ["moves", { a: { b: 1 } }, [{ op: "move", from: "/m/a/b", path: "/m/c" }], { a: {}, c: 1 }],
    [
      "moves within a list",
      { l: [1, 2, 3] },
      [{ op: "move", from: "/m/l/0", path: "/m/l/2" }],
      { l: [2, 3, 1] },
    ],
    ["honours test", { a: 1 }, [{ op: "test", path: "/m/a", value: 1 }, remove("/m/a")], {}],
    ["unescapes", { "a/b": 1, "~": 2 }, [remove("/m/a~1b"), remove("/m/~0")], {}],
    ["removes a null", { a: null }, [remove("/m/a")], {}],
    ["adds members that prototypes have", {}, [add("/m/constructor", 1)], { constructor: 1 }],
  ];
  it.each(CASES)("%s", (_, ...[section, operations, wanted]) => {
    const before = JSON.stringify(section);
    expect(applyJsonPatch(section, operations)).toEqual(wanted);
    expect(JSON.stringify(section)).toBe(before);
  });

  it.each<[string, Section | undefined, PatchOperation[]]>([
    ["removing nothing", { a: 1 }, [remove("/m/b")]],
    ["removing an absent section", undefined, [remove("/m")]],
    ["replacing nothing", { a: 1 }, [{ op: "replace", path: "/m/b", value: 1 }]],
    ["adding below nothing", { a: 1 }, [add("/m/b/c", 1)]],
    ["adding below a scalar", { a: 1 }, [add("/m/a/c", 1)]],
    ["an index beyond the list", { l: [1] }, [add("/m/l/2", 1)]],
    ["an index with a leading zero", { l: [1] }, [add("/m/l/00", 1)]],
    ["a word as index", { l: [1] }, [add("/m/l/x", 1)]],
    ["removing the place behind the last item", { l: [1] }, [remove("/m/l/-")]],
    ["a test that fails", { a: 1 }, [{ op: "test", path: "/m/a", value: 2 }]],
    ["a test of nothing", { a: 1 }, [{ op: "test", path: "/m/b", value: null }]],
    ["moving nothing", { a: 1 }, [{ op: "move", from: "/m/b", path: "/m/c" }]],
    ["moving into itself", { a: {} }, [{ op: "move", from: "/m/a", path: "/m/a/b" }]],
    ["what only a prototype has", { a: 1 }, [remove("/m/toString")]],
    ["a section that is a scalar", { a: 1 }, [add("/m", "x")]],
  ])("refuses %s", (_, section, operations) => {
    expect(() => applyJsonPatch(section, operations)).toThrow(PatchError);
  });

  it("shares what it does not touch", () => {
    const section = { big: { a: 1 }, small: { b: 1 } };
    const after = applyJsonPatch(section, [add("/m/small/c", 1)]) as typeof section;
    expect(after.big).toBe(section.big);
  });

  it("does not change the values of operations", () => {
    const operations = [add("/m/a", { list: [] }), add("/m/a/list/-", 1)];
    applyJsonPatch({}, operations);
    expect(operations[0]).toEqual(add("/m/a", { list: [] }));
  });
});

it("a patch of very many operations is refused", () => {
  const text = (count: number): string => '{"op": "add", "path": "/m/l/0", "value": 1}\n'.repeat(count);
  const rules = "m";
  expect(parsePatch(text(10_000), rules).operations).toHaveLength(10_000);
  expect(() => parsePatch(text(10_001), rules)).toThrow("10001 operations, more than 10000");
});

describe("copies", () => {
  const double: PatchOperation = { op: "copy", from: "/m/d", path: "/m/d/0" };

  it("that double a value over and over are refused before they fill the memory", () => {
    const patch = Array.from({ length: 60 }, () => double);
    expect(() => applyJsonPatch({ d: [1, 2, 3] }, patch)).toThrow(/copy \/m\/d\/0: .*more than 4 MiB larger/);
  });

  it("that would grow too large in a replay are left out", () => {
    const long = "x".repeat(3 * 1024 * 1024);
    const patch: PatchOperation[] = [
      { op: "copy", from: "/m/a", path: "/m/b" },
      { op: "copy", from: "/m/a", path: "/m/c" },
    ];
    expect(Object.keys(replayStoredPatches({ a: long }, patch) ?? {})).toEqual(["a", "b"]);
  });
});

describe("operations to store", () => {
  it("are refused if they make the section a scalar, like a config patch", () => {
    expect(() => toStoredOperations({ a: 1 }, [add("/m", 5)])).toThrow("a section must be a map or a list");
  });

  it.each([
    ["removed", remove("/m")],
    ["set to null", add("/m", null)],
  ])("may leave the section %s", (_, last) => {
    expect(toStoredOperations({ a: 1 }, [last])).toEqual([last]);
  });

  it("may pass a scalar on the way to a map", () => {
    const operations = [add("/m", 5), add("/m", { b: 1 })];
    expect(toStoredOperations({ a: 1 }, operations)).toEqual(operations);
  });
});

describe("replay", () => {
  it.each<[string, Section | undefined, PatchOperation[], Section]>([
    ["leaves out removals of nothing", { a: 1 }, [remove("/m/b"), add("/m/c", 1)], { a: 1, c: 1 }],
    ["leaves out what has no parent any more", { a: 1 }, [add("/m/b/c", 1)], { a: 1 }],
    ["adds what a replace finds gone", {}, [{ op: "replace", path: "/m/a", value: 1 }], { a: 1 }],
    ["does not look at tests again", {}, [{ op: "test", path: "/m/a", value: 1 }, add("/m/b", 1)], { b: 1 }],
    ["empties a removed section", { a: 1 }, [remove("/m")], {}],
  ])("%s", (_, ...[section, operations, wanted]) => {
    expect(replayStoredPatches(section, operations)).toEqual(wanted);
  });
});

/** Few names, so that paths meet; digits, so that maps and lists are confused. */
const segment = fc.constantFrom("a", "b", "0", "1", "-");
const path = fc.array(segment, { minLength: 0, maxLength: 3 }).map((parts) => ["/m", ...parts].join("/"));
const { value } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<Json>(1, "x", null, true),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(segment, tie("value"), { maxKeys: 3 }),
  ),
}));
const section = fc.oneof(
  fc.dictionary(segment, value, { maxKeys: 4 }) as fc.Arbitrary<Section>,
  fc.array(value, { maxLength: 3 }) as fc.Arbitrary<Section>,
);
const sectionValue = (each: PatchOperation): boolean =>
  each.path !== "/m" || !("value" in each) || (typeof each.value === "object" && each.value !== null);
const operation: fc.Arbitrary<PatchOperation> = fc
  .oneof(
    {
      weight: 5,
      arbitrary: fc.record({ op: fc.constantFrom("add" as const, "replace" as const), path, value }),
    },
    { weight: 3, arbitrary: fc.record({ op: fc.constant("remove" as const), path }) },
    {
      weight: 1,
      arbitrary: fc.record({ op: fc.constantFrom("move" as const, "copy" as const), path, from: path }),
    },
    { weight: 1, arbitrary: fc.record({ op: fc.constant("test" as const), path, value }) },
  )
  .filter(sectionValue);

/** Operations that fit when they are applied one after the other to `base`, as stored. */
function fresh(base: Section | undefined, wishes: readonly PatchOperation[]): PatchOperation[] {
  const stored: PatchOperation[] = [];
  let now = base;
  for (const wish of wishes) {
    try {
      const next = applyJsonPatch(now, [wish]);
      stored.push(...toStoredOperations(now, [wish]));
      now = next;
    } catch (error) {
      if (!(error instanceof PatchError)) throw error;
    }
  }
  return stored;
}

describe("compact", () => {
  it.each<[string, PatchOperation[], PatchOperation[]]>([
    ["drops what is overwritten", [add("/m/a", 1), add("/m/a", 2)], [add("/m/a", 2)]],
    ["drops what is inside of what is removed", [add("/m/a/b", 1), remove("/m/a")], [remove("/m/a")]],
    [
      "folds appends into the list",
      [add("/m/l", []), add("/m/l/-", 1), add("/m/l/-", 2)],
      [add("/m/l", [1, 2])],
    ],
    [
      "keeps appends to a list of the layers",
      [add("/m/l/-", 1), add("/m/l/-", 1)],
      [add("/m/l/-", 1), add("/m/l/-", 1)],
    ],
    ["drops tests", [{ op: "test", path: "/m/a", value: 1 }], []],
  ])("%s", (_, operations, wanted) => {
    expect(compactOperations(operations)).toEqual(wanted);
  });

  it("keeps repeated writes under numeric keys small once they are marked", () => {
    const stored = Array.from({ length: 50 }, (_, port) =>
      toStoredOperations({ ports: {} }, [add("/m/ports/8080", port)]),
    );
    expect(compactOperations(stored.flat())).toHaveLength(1);
  });

  it("is not misled by what it gave before for the same first operation", () => {
    const first = add("/m/a", 1);
    expect(compactOperations([first, add("/m/b", 1)])).toHaveLength(2);
    expect(compactOperations([first, add("/m/a", 2)])).toEqual([add("/m/a", 2)]);
  });

  it.each<[string, PatchOperation[], Section]>([
    [
      "what a copy in between has read",
      [add("/m/a", 1), { op: "copy", from: "/m/a", path: "/m/b" }, add("/m/a", 2)],
      {},
    ],
    [
      "a value that a copy in between has read before it grew",
      [add("/m/a", {}), { op: "copy", from: "/m/a", path: "/m/b" }, add("/m/a/x", 1)],
      {},
    ],
    [
      "an append to a list that the layers have at the place of a map",
      [{ ...add("/m/0", []), maps: true }, add("/m/0/-", "x")],
      [["layer"]],
    ],
    [
      "inserts into a list that the layers have at the place of a map",
      [add("/m/0", "x"), { ...add("/m/0", "y"), maps: true }],
      ["layer"],
    ],
    [
      "the order of operations inside of one value",
      [{ ...add("/m/0", { l: [] }), maps: true }, add("/m/0/l/-", 1), { ...add("/m/0/l", [2]), maps: true }],
      {},
    ],
    [
      "the order of operations inside of one value that were not folded",
      [{ ...add("/m/0", {}), maps: true }, add("/m/0/1", [1]), { ...add("/m/0/1", [2]), maps: true }],
      {},
    ],
    ["inserts at one index", [add("/m/l/0", 1), add("/m/l/0", 2)], { l: [] }],
    ["removals at one index", [remove("/m/l/0"), remove("/m/l/0")], { l: [1, 2, 3] }],
  ])("keeps %s", (_, operations, base) => {
    expect(replayStoredPatches(base, compactOperations(operations))).toEqual(
      replayStoredPatches(base, operations),
    );
  });

  it("keeps the effect of any operations on any base", () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 12 }), section, (operations, base) => {
        const all = safely(() => replayStoredPatches(base, operations));
        const few = safely(() => replayStoredPatches(base, compactOperations(operations)));
        expect(few).toEqual(all);
      }),
      { numRuns: often(1000) },
    );
  });

  it("keeps the effect of what hooks really left, replayed over other layers", () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 20 }), section, section, (wishes, base, other) => {
        const stored = fresh(base, wishes);
        expect(replayStoredPatches(other, compactOperations(stored))).toEqual(
          replayStoredPatches(other, stored),
        );
        expect(compactOperations(compactOperations(stored))).toEqual(compactOperations(stored));
        expect(compactOperations(stored).length).toBeLessThanOrEqual(stored.length);
      }),
      { numRuns: often(1000) },
    );
  });

  it("gives what the hook saw when the layers are the same", () => {
    fc.assert(
      fc.property(
        fc.array(
          operation.filter(({ op }) => op !== "test"),
          { maxLength: 12 },
        ),
        section,
        (wishes, base) => {
          const stored = fresh(base, wishes);
          expect(replayStoredPatches(base, compactOperations(stored))).toEqual(
            replayStoredPatches(base, stored),
          );
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe("toStoredOperations", () => {
  it.each<[string, PatchOperation, PatchOperation[]]>([
    ["marks what looks like an index", add("/m/o/0", 1), [{ ...add("/m/o/0", 1), maps: true }]],
    ["not an index", add("/m/l/0", 1), [add("/m/l/0", 1)]],
    ["not what cannot be one", add("/m/o/01", 1), [add("/m/o/01", 1)]],
    [
      "not a copy",
      { op: "copy", from: "/m/l", path: "/m/o/0" },
      [{ op: "copy", from: "/m/l", path: "/m/o/0" }],
    ],
    ["keeps no test", { op: "test", path: "/m/l/0", value: 1 }, []],
  ])("%s", (_, wish, wanted) => {
    expect(toStoredOperations({ o: {}, l: [1] }, [wish])).toEqual(wanted);
  });
});

function safely<T>(fn: () => T): T | "refused" {
  try {
    return fn();
  } catch (error) {
    if (error instanceof PatchError) return "refused";
    throw error;
  }
}
