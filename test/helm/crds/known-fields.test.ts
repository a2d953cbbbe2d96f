import * as types from "@kubernetes/client-node";
import { expect, it } from "vitest";

import { FIELDS, withKnownFields } from "../../../src/helm/crds/known-fields.ts";
import type { JsonObject } from "../../../src/base/model/index.ts";

// docs/reference/modules.md, "The chart": fields that no CustomResourceDefinition has are not applied.

interface Typed {
  getAttributeTypeMap(): { readonly baseName: string; readonly type: string }[];
}

it.each(Object.entries(FIELDS))("knows the fields of %s as the types of the client do", (name, fields) => {
  const typed = (types as unknown as Record<string, Typed>)[name]?.getAttributeTypeMap() ?? [];
  expect(Object.keys(fields).sort()).toEqual(typed.map(({ baseName }) => baseName).sort());
  const wanted = typed.flatMap(({ baseName, type }) => {
    const inner = /V1\w+|Apiextensions\w+/.exec(type)?.[0] ?? "";
    const isMap = type.startsWith("{") ? "*" : "";
    // The Go types say more of these than the generated ones.
    const schemas = ["items", "additionalItems", "additionalProperties"].includes(baseName);
    if (baseName === "dependencies") return [[baseName, "*V1JSONSchemaProps"]];
    if (schemas) return [[baseName, "V1JSONSchemaProps"]];
    return inner in FIELDS ? [[baseName, isMap + inner]] : [];
  });
  expect(Object.entries(fields).filter(([, type]) => type !== "")).toEqual(
    expect.arrayContaining(wanted) as unknown,
  );
});

function definition(schema: JsonObject, version: JsonObject = {}): JsonObject {
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "things.example.org", annotations: { "x-doc-a": "kept" } },
    spec: { versions: [{ name: "v1", schema: { openAPIV3Schema: schema }, ...version }] },
  };
}

const pruned = (schema: JsonObject): unknown => {
  const dropped = new Set<string>();
  expect(withKnownFields(definition(schema), dropped)).toEqual(definition({ type: "object" }));
  return [...dropped];
};

it.each<[string, JsonObject]>([
  ["a schema", { type: "object", "x-doc-default": 1 }],
  ["metadata of the schema", { type: "object", "x-examples": [{ a: 1 }], "x-description": {} }],
])("drops unknown fields of %s", (_, schema) => {
  expect(pruned(schema)).toEqual(Object.keys(schema).slice(1));
});

it("drops unknown fields at every place where a schema may stand, and nowhere else", () => {
  const recorded = { type: "string", "x-doc-a": "b" };
  const plain = { type: "string" };
  const at = (each: JsonObject): JsonObject => ({
    properties: { "x-doc-a": each, default: each },
    patternProperties: { "x-.*": each },
    definitions: { d: each },
    dependencies: { a: ["x-doc-a"], b: each },
    additionalProperties: { items: [each, { items: each }] },
    additionalItems: false,
    allOf: [each, { not: each }],
    anyOf: [{ oneOf: [each] }],
  });
  const payload = { "x-doc-a": 1, properties: { "x-doc-b": 2 } };
  const kept = {
    default: payload,
    example: payload,
    enum: [payload, "x-doc-a"],
    required: ["x-doc-a"],
    "x-kubernetes-preserve-unknown-fields": true,
    "x-kubernetes-validations": [{ rule: "true" }],
    "x-kubernetes-list-map-keys": ["x-doc-a"],
  };
  const dropped = new Set<string>();
  const rule = { "x-kubernetes-validations": [{ rule: "true", "x-why": 1 }] };
  const before = definition({ ...kept, ...at(recorded), ...rule }, { "x-doc": 1 });
  expect(withKnownFields(before, dropped)).toEqual(definition({ ...kept, ...at(plain) }));
  expect([...dropped].sort()).toEqual(["x-doc", "x-doc-a", "x-why"]);
});

it("leaves values of a wrong type to the API server", () => {
  const wrong = { ...definition({ properties: "a", items: 1, allOf: { "x-a": 1 } }), metadata: null };
  const dropped = new Set<string>();
  expect(withKnownFields(wrong, dropped)).toMatchObject({ metadata: null });
  expect([...dropped]).toEqual(["x-a"]);
});
