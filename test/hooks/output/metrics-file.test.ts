import { describe, expect, test } from "vitest";

import { OutputError, parseMetrics, parseObjectOperations } from "../../../src/hooks/index.ts";
import { MOST_METRIC_VALUES, requireFewValues } from "../../../src/hooks/output/output-files.ts";

describe("metrics", () => {
  test("every action, one after the other or on lines, shortcuts, groups", () => {
    const text = `{"name":"a","action":"add","value":2,"labels":{"l":"v"}}
{"name":"b","set":0}{"name":"c","add":1,"group":"g"}
{
  "name": "d", "action": "observe", "value": 0.3, "buckets": [0.1, 1, 5]
}
{"action":"expire","group":"g"}{"action":"expire"}{"action":"expire","name":"a"}`;
    expect(parseMetrics(text)).toEqual([
      { name: "a", action: "add", value: 2, labels: { l: "v" }, group: undefined },
      { name: "b", action: "set", value: 0, labels: {}, group: undefined },
      { name: "c", action: "add", value: 1, labels: {}, group: "g" },
      { name: "d", action: "observe", value: 0.3, labels: {}, group: undefined, buckets: [0.1, 1, 5] },
      { action: "expire", group: "g", name: undefined },
      { action: "expire", group: undefined, name: undefined },
      { action: "expire", group: undefined, name: "a" },
    ]);
    expect(parseMetrics(" \n")).toEqual([]);
  });

  test("no more of them than the operator can look at without a pause", () => {
    const lines = (count: number): string => `{"name":"a","set":1}\n`.repeat(count);
    expect(parseMetrics(lines(50_000))).toHaveLength(50_000);
    expect(() => parseMetrics(lines(50_001))).toThrow("line 50001: more than 50000 objects");
  });

  test("as many as are allowed have few enough values, with labels, buckets and fractions", async () => {
    const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
    const labels = { a: "1", b: "2", c: "3" };
    const line = `${JSON.stringify({ name: "a", action: "observe", value: 0.3, labels, buckets })}\n`;
    await requireFewValues(line.repeat(50_000), MOST_METRIC_VALUES);
    await expect(requireFewValues(line.repeat(60_000), MOST_METRIC_VALUES)).rejects.toThrow("JSON values");
  });

  test.each([
    [`{"name":"a","value":1}`, "line 1: 'action' is required: one of add, set, observe, expire"],
    [`{"name":"a","add":1,"set":1}`, "line 1: give only one of 'action', 'add' and 'set'"],
    [`{"name":"a","action":"set","add":1}`, "line 1: give only one of 'action', 'add' and 'set'"],
    [`{"name":"a","action":"grow","value":1}`, "line 1: 'action' must be one of add, set, observe, expire"],
    [`\n\n{"action":"set","value":1}`, "line 3: 'name' is required"],
    [`{"name":"a","action":"set"}`, "line 1: metric a: 'value' is required"],
    [`{"name":"a","action":"set","value":"1"}`, "line 1: metric a: 'value' must be a number"],
    [`{"name":"a b","set":1}`, "line 1: 'name' is no metric name ("],
    [`{"name":"a","action":"observe","value":1}`, "line 1: 'buckets' is required for action 'observe'"],
    [`{"name":"a","action":"observe","value":1,"buckets":[2,1]}`, "line 1: 'buckets' must ascend"],
    [`{"name":"a","set":1,"labels":{"x":1}}`, "line 1: label x must be a string"],
    [`{"name":"a","set":1,"labels":{"x-y":"1"}}`, "line 1: a name in 'labels' is no label name ("],
    [`{"name":"${"a".repeat(257)}","set":1}`, "line 1: 'name' has more than 256 characters"],
    [`{"name":"a","set":1,"group":"${"a".repeat(257)}"}`, "line 1: 'group' has more than 256 characters"],
    [
      `{"name":"a","set":1,"labels":{"${"a".repeat(257)}":""}}`,
      "line 1: a name in 'labels' has more than 256 characters",
    ],
    [
      `{"name":"a","set":1,"labels":{"x":"${"a".repeat(2001)}"}}`,
      "line 1: label x has more than 2000 characters",
    ],
    [`{"name":"a","set":1,"labels":[]}`, "line 1: 'labels' must be an object"],
    [`{"name":"a","add":-1}`, "line 1: 'value' must not be negative for action 'add'"],
    [`{"action":"expire","name":"a b"}`, "line 1: 'name' is no metric name ("],
    [`{"name":"a","set":1}\n{"name":"a","add":1}`, "metric a is used with 'set' and with 'add'"],
    [`{"name":"a","set":1}\n[1]`, "line 2: not a JSON object"],
    [`{"name":"a","set":1}\nnonsense {`, /^line 2: malformed JSON$/],
    [`{"name":"a"`, /^line 1: malformed JSON$/],
  ])("%s is refused", (text, message) => {
    expect(() => parseMetrics(text)).toThrow(message);
    expect(() => parseMetrics(text)).toThrow(OutputError);
  });
});

const CM = {
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "c", namespace: "ns" },
  data: { x: '{"}' },
};
const TARGET = { apiVersion: "v1", kind: "ConfigMap", namespace: "ns", name: "c" };
const ON = { kind: "Pod", name: "p", namespace: "ns" };
const AT = { apiVersion: undefined, ...ON };
const PLAIN = { ...AT, subresource: undefined, ignoreMissingObject: false };

describe("object operations", () => {
  test.each(["Create", "CreateIfNotExists", "CreateOrUpdate"])(
    "%s, its object as it is or as text",
    (operation) => {
      const want = [{ operation, object: CM, target: TARGET }];
      expect(parseObjectOperations(JSON.stringify({ operation, object: CM, namespace: "ignored" }))).toEqual(
        want,
      );
      expect(parseObjectOperations(JSON.stringify({ operation, object: JSON.stringify(CM) }))).toEqual(want);
      const yaml =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  namespace: ns\ndata:\n  x: '{\"}'\n";
      expect(parseObjectOperations(JSON.stringify({ operation, object: yaml }))).toEqual(want);
    },
  );

  test.each(["Delete", "DeleteInBackground", "DeleteNonCascading"])("%s", (operation) => {
    expect(parseObjectOperations(JSON.stringify({ operation, ...ON, subresource: "status" }))).toEqual([
      { operation, target: AT },
    ]);
  });

  test("the three patches, with all that they may carry", () => {
    const text = [
      { operation: "MergePatch", ...ON, mergePatch: { a: null }, subresource: "/status" },
      {
        operation: "MergePatch",
        ...ON,
        mergePatch: "a: 1",
        ignoreMissingObject: true,
        ignoreHookError: true,
      },
      { operation: "JSONPatch", ...ON, jsonPatch: [{ op: "remove", path: "/a" }] },
      { operation: "JSONPatch", ...ON, jsonPatch: '[{"op":"move","path":"/a","from":"/b"}]' },
      { operation: "JQPatch", ...ON, jqFilter: ".a = 1" },
    ];
    expect(parseObjectOperations(text.map((each) => JSON.stringify(each)).join(""))).toEqual([
      { operation: "MergePatch", target: { ...PLAIN, subresource: "status" }, mergePatch: { a: null } },
      { operation: "MergePatch", target: { ...PLAIN, ignoreMissingObject: true }, mergePatch: { a: 1 } },
      { operation: "JSONPatch", target: PLAIN, jsonPatch: [{ op: "remove", path: "/a" }] },
      { operation: "JSONPatch", target: PLAIN, jsonPatch: [{ op: "move", path: "/a", from: "/b" }] },
      { operation: "JQPatch", target: PLAIN, jqFilter: ".a = 1" },
    ]);
  });

  test("YAML documents, with and without a first separator", () => {
    const documents =
      "operation: Delete\nkind: Pod\nname: a\n---\noperation: Delete\nkind: Pod\nname: b\n---\n# nothing\n";
    const names = (text: string) => parseObjectOperations(text).map(({ target }) => target.name);
    expect(names(documents)).toEqual(["a", "b"]);
    expect(names(`---\n${documents}...\n`)).toEqual(["a", "b"]);
    expect(names(" \n")).toEqual([]);
  });

  test("a block text that holds a separator of its own", () => {
    const text =
      "operation: Create\nobject: |\n  apiVersion: v1\n  kind: Secret\n  metadata: {name: s}\n  # ---\n";
    expect(parseObjectOperations(text)).toMatchObject([{ operation: "Create", target: { name: "s" } }]);
  });

  test.each([
    [
      String.raw`{"operation":"MergePatch","kind":"Pod","name":"p","mergePatch":{"a":["\uD83D x"]}}`,
      "mergePatch.a.0",
    ],
    [
      String.raw`{"operation":"JSONPatch","kind":"Pod","name":"\udfff","jsonPatch":[{"op":"remove","path":"/a"}]}`,
      "target.name",
    ],
    [
      String.raw`{"operation":"MergePatch","kind":"Pod","name":"p","mergePatch":{"\ud800":1}}`,
      "mergePatch.\ufffd",
    ],
  ])("half a surrogate pair is refused: %s", (text, path) => {
    expect(() => parseObjectOperations(text)).toThrow(
      `line 1: ${path} contains half a surrogate pair, which is no character`,
    );
  });

  test("YAML in texts that is too much for all of them together", () => {
    const operation = { operation: "MergePatch", ...ON, mergePatch: `a: ${"x".repeat(2_000_000)}` };
    const line = `${JSON.stringify(operation)}\n`;
    expect(parseObjectOperations(line.repeat(2))).toHaveLength(2);
    expect(() => parseObjectOperations(line.repeat(3))).toThrow(
      "it has 6000009 characters of YAML, more than 4194304: write JSON objects",
    );
  });

  test("whole surrogate pairs are kept", () => {
    const text = String.raw`{"operation":"MergePatch","kind":"Pod","name":"p","mergePatch":{"a":"\ud83d\ude00"}}`;
    expect(parseObjectOperations(text)).toMatchObject([{ mergePatch: { a: "😀" } }]);
  });

  test("what is wrong with each document is reported together", () => {
    const text = `{"operation":"Create"}\n{"operation":"Delete","kind":"Pod","name":"ok"}\n{"operation":"Frob"}`;
    expect(() => parseObjectOperations(text)).toThrow(
      `line 1: 'object' is required; line 3: 'operation' must be one of Create, `,
    );
  });

  test.each([
    [{}, "'operation' is required"],
    [{ operation: "delete", ...ON }, "'operation' must be one of Create, "],
    [{ operation: "Delete", kind: "Pod" }, "'name' is required"],
    [{ operation: "Delete", name: "p" }, "'kind' is required"],
    [{ operation: "Delete", kind: "Pod", name: 5 }, "'name' must be a string"],
    [
      { operation: "Create", object: { kind: "X", metadata: { name: "x" } } },
      "'object.apiVersion' is required",
    ],
    [{ operation: "Create", object: { apiVersion: "v1", kind: "X" } }, "'object.metadata.name' is required"],
    [{ operation: "Create", object: "a: [" }, /'object': neither JSON nor YAML/],
    [{ operation: "Create", object: "text" }, "'object' must be an object, or a text with one"],
    [{ operation: "MergePatch", ...ON }, "'mergePatch' is required"],
    [
      { operation: "MergePatch", ...ON, mergePatch: [] },
      "'mergePatch' must be an object, or a text with one",
    ],
    [{ operation: "JSONPatch", ...ON, jsonPatch: {} }, "'jsonPatch' must be an array, or a text with one"],
    [
      { operation: "JSONPatch", ...ON, jsonPatch: [{ op: "add", path: "/a" }] },
      "jsonPatch[0].value is required for op add",
    ],
    [
      { operation: "JSONPatch", ...ON, jsonPatch: [{ op: "add", path: "a", value: 1 }] },
      "jsonPatch[0].path is no JSON pointer",
    ],
    [
      { operation: "JSONPatch", ...ON, jsonPatch: [{ op: "move", path: "/a" }] },
      "jsonPatch[0].from is required",
    ],
    [
      { operation: "JSONPatch", ...ON, jsonPatch: [{ op: "set", path: "/a" }] },
      "jsonPatch[0].op should be one of",
    ],
    [{ operation: "JQPatch", ...ON }, "'jqFilter' is required"],
    [
      { operation: "JQPatch", ...ON, jqFilter: ".", ignoreMissingObject: "yes" },
      "'ignoreMissingObject' must be a boolean",
    ],
  ])("%j is refused", (operation, message) => {
    expect(() => parseObjectOperations(JSON.stringify(operation))).toThrow(message);
  });

  test("a Create that lets the server make up the name", () => {
    const object = { apiVersion: "batch/v1", kind: "Job", metadata: { generateName: "j-" } };
    expect(parseObjectOperations(JSON.stringify({ operation: "Create", object }))).toMatchObject([
      { target: { name: "" } },
    ]);
    expect(() => parseObjectOperations(JSON.stringify({ operation: "CreateOrUpdate", object }))).toThrow(
      "'object.metadata.name' is required",
    );
  });

  test("one document in YAML's flow style", () => {
    const flow = "{operation: Delete, kind: ConfigMap, name: one}";
    expect(parseObjectOperations(`${flow}\n`)).toEqual(parseObjectOperations(`---\n${flow}\n`));
    expect(() => parseObjectOperations(`${flow}\n{operation: Delete}`)).toThrow("malformed JSON");
    expect(() => parseObjectOperations("{operation: Delete, kind: ConfigMap")).toThrow("malformed JSON");
  });

  test.each(["text", "- a\n- b", "{", "a: [\n"])("%j is neither JSON nor YAML objects", (text) => {
    expect(() => parseObjectOperations(text)).toThrow(OutputError);
  });
});
