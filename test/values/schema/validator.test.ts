import * as fc from "fast-check";
import { expect, test } from "vitest";

import { readJson, type Json, type JsonObject } from "../../../src/base/model/index.ts";
import { createAjvCheck, createValidator } from "../../../src/values/schema/validator.ts";
import type { Violation } from "../../../src/values/schema/violation.ts";

const NAMES = ["a", "b", "c/d", "e~f"];
const name = fc.constantFrom(...NAMES);

const leaf: fc.Arbitrary<JsonObject> = fc.constantFrom<JsonObject>(
  { type: "integer", minimum: 1, default: 7 },
  { type: "string", minLength: 2, description: "text" },
  { type: ["boolean", "null"] },
  { type: "array", items: { type: "integer" }, "x-doc": 1 },
  { enum: ["one", 2] },
  { anyOf: [{ type: "string" }, { type: "integer", maximum: 5 }] },
  {},
);

const { schema } = fc.letrec<{ schema: JsonObject; object: JsonObject }>((tie) => ({
  schema: fc.oneof({ maxDepth: 3, withCrossShrink: true }, leaf, tie("object")),
  object: fc.record<JsonObject>(
    {
      type: fc.constantFrom<Json>("object", ["object", "null"]),
      properties: fc.dictionary(name, tie("schema")) as fc.Arbitrary<Json>,
      required: fc.uniqueArray(name) as fc.Arbitrary<Json>,
      additionalProperties: fc.oneof<fc.Arbitrary<Json>[]>(fc.boolean(), leaf),
      minProperties: fc.constant(1),
      title: fc.constant("an object"),
    },
    { requiredKeys: [] },
  ),
}));

const { value } = fc.letrec<{ value: Json; object: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<Json>(0, 3, 9, "x", "one", true, null, [1], ["x"]),
    tie("object"),
  ),
  object: fc.dictionary(name, tie("value")) as fc.Arbitrary<Json>,
}));

const inOrder = (found: readonly Violation[]): string[] =>
  [
    ...new Set(found.map(({ path, rule, message }) => `${path === "" ? "/" : path} ${rule}: ${message}`)),
  ].sort();

test("integers above 2^53 are integers", () => {
  const schema = readJson(
    '{"properties":{"id":{"type":"integer","minimum":1,"maximum":9223372036854775807},"size":{"type":"number"}}}',
  ) as JsonObject;
  const check = createValidator(schema);
  expect(check(readJson('{"id":1234567890123456789,"size":1234567890123456789}'))).toEqual([]);
  expect(check(readJson('{"id":-1234567890123456789}'))).toMatchObject([{ path: "/id", rule: "minimum" }]);
  const text = createValidator({ properties: { id: { type: "string" } } });
  expect(text(readJson('{"id":1234567890123456789}'))).toMatchObject([{ path: "/id", rule: "type" }]);
});

test("a schema taken apart says what ajv says of the whole", () => {
  fc.assert(
    fc.property(schema, value, (each, judged) => {
      const whole: Violation[] = [];
      createAjvCheck(each)(judged, "", whole);
      expect(inOrder(createValidator(each)(judged))).toEqual(inOrder(whole));
    }),
    { numRuns: 300 },
  );
});

test("a schema with references stays whole", () => {
  const definitions = { port: { type: "integer", maximum: 65_535 } };
  const properties = { http: { $ref: "#/definitions/port" }, name: { type: "string" } };
  const validate = createValidator({ type: "object", definitions, properties });
  expect(validate({ http: 80, name: "web" })).toEqual([]);
  expect(validate({ http: 70_000, name: 1 }).map(({ path, rule }) => `${path} ${rule}`)).toEqual([
    "/http maximum",
    "/name type",
  ]);
});

test("only a member of its own counts", () => {
  const properties = { toString: { type: "integer" }, ["__proto__"]: { type: "integer" } };
  const validate = createValidator({ type: "object", properties, required: ["constructor"] });
  expect(validate({}).map(({ path, rule }) => `${path} ${rule}`)).toEqual(["/constructor required"]);
  const own = JSON.parse('{"constructor": 1, "__proto__": "x", "toString": "y"}') as JsonObject;
  expect(validate(own).map(({ path, rule }) => `${path} ${rule}`)).toEqual([
    "/__proto__ type",
    "/toString type",
  ]);
});
