import { expect, test } from "vitest";

import { shortenMiddle, oneLine } from "../../src/lib/index.ts";

// As an API server of Kubernetes 1.30 reports it, with more versions.
const version = 'CustomResourceDefinitionVersion{Name:"v1", Served:true, Schema:(*Validation)(nil)}, ';
const refused = `"things" is invalid:\n* spec.versions: Invalid value: []Version{${version.repeat(20)}}: must have one`;

test("of a long refusal one reads what is refused, and why", () => {
  const reported = shortenMiddle(new Error(refused));
  expect(reported).toMatch(/^"things" is invalid: \* spec\.versions: /);
  expect(reported).toMatch(/: must have one$/);
  expect(reported.length).toBeLessThanOrEqual(500);
  expect(oneLine(new Error(refused))).not.toContain("must have one");
});

test("a short message stays as it is, in one line", () => {
  expect(shortenMiddle(new Error("no\n  such thing"))).toBe("no such thing");
});
