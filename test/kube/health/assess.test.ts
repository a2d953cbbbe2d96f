import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import { assessObject } from "../../../src/kube/health/index.ts";
import type { JsonObject } from "../../../src/base/model/index.ts";

/** What the Go library said of each object at that moment; its messages are not ours. */
interface Vectors {
  readonly library: string;
  readonly now: string;
  readonly cases: readonly (readonly [status: string, object: JsonObject])[];
}

const vectors = JSON.parse(
  readFileSync(join(import.meta.dirname, "../..", "fixtures", "kstatus", "vectors.json"), "utf8"),
) as Vectors;
const now = Date.parse(vectors.now);

test("agrees with the Go library of kstatus in every vector", () => {
  const wrong = vectors.cases.flatMap(([status, object]) => {
    const assessed = assessObject(object, now);
    return assessed.status === status
      ? []
      : [{ ours: assessed, theirs: status, object: JSON.stringify(object) }];
  });
  expect(vectors.cases.length).toBeGreaterThan(1500);
  expect(wrong).toEqual([]);
});

test("says why an object is not Current, in words", () => {
  const mute = vectors.cases.filter(([status, object]) => {
    const { message } = assessObject(object, now);
    return (message === "") !== (status === "Current");
  });
  expect(mute).toEqual([]);
});

describe("an object that cannot be assessed", () => {
  const HUGE = "x".repeat(1_000_000);
  const hostile: readonly (readonly [name: string, object: unknown])[] = [
    ["status is a text", { status: HUGE }],
    ["conditions are no list", { status: { conditions: { type: "Ready" } } }],
    ["a condition is a number", { status: { conditions: [1] } }],
    ["an attempt at the prototype", JSON.parse('{"metadata":{"__proto__":{"deletionTimestamp":1}}}')],
    ["no metadata", {}],
    ["nothing is of the expected type", { apiVersion: [], kind: {}, metadata: [], spec: 1, status: true }],
    ["very many conditions", { status: { conditions: Array.from({ length: 100_000 }, () => ({})) } }],
  ];
  test.each(hostile)("never throws: %s", (_, object) => {
    const statuses = ["Unknown", "Current"];
    expect(statuses).toContain(assessObject(object as JsonObject, 0).status);
  });

  test("is Unknown, with the field that cannot be read", () => {
    const object = { kind: "Thing", status: { conditions: [{ type: 1 }] } };
    expect(assessObject(object, 0)).toEqual({
      status: "Unknown",
      reason: "Unreadable",
      message: "status.conditions[0].type is no text",
    });
  });
});
