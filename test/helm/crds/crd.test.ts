import { describe, expect, test } from "vitest";

import { findLosses, type InstalledCrd } from "../../../src/helm/crds/crd.ts";
import type { JsonObject } from "../../../src/base/model/index.ts";

// docs/reference/modules.md, "CRDs that change": what a new definition takes away.

interface Version {
  readonly name: string;
  readonly served?: boolean;
  readonly storage?: boolean;
  readonly spec?: JsonObject;
}

function crd(versions: readonly Version[], storedVersions = ["v1"]): InstalledCrd & JsonObject {
  const made = versions.map(({ name, served = true, storage = name === "v1", spec = {} }) => ({
    name,
    served,
    storage,
    schema: { openAPIV3Schema: { type: "object", properties: { spec: { type: "object", ...spec } } } },
  }));
  const names = { plural: "things", kind: "Thing" };
  return {
    metadata: { name: "things.example.org" },
    spec: { group: "example.org", scope: "Namespaced", names, versions: made },
    status: { storedVersions },
  } as unknown as InstalledCrd & JsonObject;
}

const thing = (spec: JsonObject | null, apiVersion = "example.org/v1"): JsonObject => ({
  apiVersion,
  kind: "Thing",
  metadata: { name: "a", managedFields: [{ manager: "kubectl", apiVersion }] },
  spec,
});

const reported = (live: InstalledCrd, next: JsonObject): string[] =>
  findLosses(live, next).map(({ description }) => description);

describe("versions", () => {
  test("that stay cost nothing, nor does a new one", () => {
    expect(reported(crd([{ name: "v1" }]), crd([{ name: "v1" }, { name: "v2" }]))).toEqual([]);
  });

  test("a stored one that goes hits every object, and counts without any", () => {
    const live = crd([{ name: "v1" }, { name: "v2", storage: true }], ["v1", "v2"]);
    const [stored] = findLosses(live, crd([{ name: "v2", storage: true }]));
    expect(stored).toMatchObject({
      description: "drops version v1, in which objects are stored",
      countsWithoutObjects: true,
    });
    expect(stored?.describeEffect(thing({}))).toBe("");
  });

  test.each([
    ["is dropped", [{ name: "v1" }]],
    ["is served no more", [{ name: "v1" }, { name: "v2", served: false }]],
  ])("one that %s hits who writes in it", (_what, versions) => {
    const [loss, ...more] = findLosses(crd([{ name: "v1" }, { name: "v2" }]), crd(versions));
    expect(more).toEqual([]);
    expect(loss).toMatchObject({
      description: "no longer serves version v2",
      version: "v2",
      countsWithoutObjects: false,
    });
    expect(loss?.describeEffect(thing({}, "example.org/v2"))).toBe("written in it by kubectl");
    expect(loss?.describeEffect(thing({}, "example.org/v1"))).toBeUndefined();
    expect(loss?.describeEffect({ metadata: { managedFields: "none" } })).toBeUndefined();
  });
});

describe("schemas", () => {
  const sized = { properties: { size: { type: "string" } } };
  const hits = (before: JsonObject, after: JsonObject, spec: JsonObject | null): string | undefined =>
    findLosses(crd([{ name: "v1", spec: before }]), crd([{ name: "v1", spec: after }]))[0]?.describeEffect(
      thing(spec),
    );

  interface Row {
    readonly description: string;
    readonly after: JsonObject;
    readonly spec: JsonObject | null;
    readonly reported: string | undefined;
  }
  const size = (schema: JsonObject): JsonObject => ({ properties: { size: schema } });
  const intOrText = { anyOf: [{ type: "integer" }, { type: "string" }], "x-kubernetes-int-or-string": true };

  // oxfmt-ignore
  const ROWS: readonly Row[] = [
    { description: "a field that is required now", after: { ...sized, required: ["size"] }, spec: {}, reported: "/spec/size is required" },
    { description: "another type", after: size({ type: "integer" }), spec: { size: "1" }, reported: "/spec/size must be integer" },
    { description: "a limit", after: size({ type: "string", maxLength: 2 }), spec: { size: "abc" }, reported: "/spec/size must" },
    { description: "no null any more", after: { ...sized, nullable: false }, spec: null, reported: "/spec must be object" },
    { description: "a field that is required and has a default", after: { ...size({ type: "string", default: "1" }), required: ["size"] }, spec: {}, reported: undefined },
    { description: "a field that is no longer there: it is dropped", after: { properties: {} }, spec: { size: "1" }, reported: undefined },
    { description: "what still fits", after: size({ type: "string", maxLength: 9 }), spec: { size: "abc" }, reported: undefined },
    { description: "integer or text", after: size(intOrText), spec: { size: "1" }, reported: undefined },
  ];
  test.each(ROWS)("$description", ({ after, spec, reported }) => {
    expect(hits({ ...sized, nullable: true }, after, spec)?.slice(0, reported?.length)).toBe(reported);
  });

  test("what did not fit before is nobody's loss", () => {
    const needs = { ...sized, required: ["size"] };
    expect(
      hits(needs, { ...needs, properties: { size: { type: "string", maxLength: 3 } } }, {}),
    ).toBeUndefined();
  });

  test("the same, in another order, is no change", () => {
    const [one, other] = [
      { type: "object", properties: {} },
      { properties: {}, type: "object" },
    ];
    expect(hits(one, other, {})).toBeUndefined();
    expect(reported(crd([{ name: "v1", spec: one }]), crd([{ name: "v1", spec: other }]))).toEqual([]);
  });
});
