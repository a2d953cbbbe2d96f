import { expect, test } from "vitest";

import { bothEnds, oneLine } from "../../src/lib/index.ts";

// As an API server of Kubernetes 1.30 tells it, with more versions.
const version = 'CustomResourceDefinitionVersion{Name:"v1", Served:true, Schema:(*Validation)(nil)}, ';
const refused = `"things" is invalid:\n* spec.versions: Invalid value: []Version{${version.repeat(20)}}: must have one`;

test("of a long refusal one reads what is refused, and why", () => {
  const told = bothEnds(new Error(refused));
  expect(told).toMatch(/^"things" is invalid: \* spec\.versions: /);
  expect(told).toMatch(/: must have one$/);
  expect(told.length).toBeLessThanOrEqual(500);
  expect(oneLine(new Error(refused))).not.toContain("must have one");
});

test("a short message stays as it is, in one line", () => {
  expect(bothEnds(new Error("no\n  such thing"))).toBe("no such thing");
});
