import { expect, test } from "vitest";

import { buildReviewContext } from "../../../src/surface/offline/try-hook.ts";
import { hookWith } from "../../hooks/build.ts";

const hook = hookWith(`
configVersion: v1
kubernetes: [{name: pods, kind: Pod}]
kubernetesValidating: [{name: one.example.com, includeSnapshotsFrom: [pods]}, {name: two.example.com}]
kubernetesCustomResourceConversion:
- name: c
  crdName: c.example.com
  conversions: [{fromVersion: v1, toVersion: v2}, {fromVersion: v2, toVersion: v3}]
`);

const context = (review: object, binding?: string): unknown =>
  JSON.parse(buildReviewContext([hook], review as never, { file: "review.json", binding }).context);

test("of an admission review, for the binding that is named, with empty snapshots", () => {
  const request = { uid: "1", object: {} };
  expect(context({ request }, "one.example.com")).toEqual([
    { binding: "one.example.com", type: "Validating", review: { request }, snapshots: { pods: [] } },
  ]);
});

test("of a conversion review: the first step", () => {
  const request = {
    uid: "1",
    desiredAPIVersion: "example.com/v3",
    objects: [{ apiVersion: "example.com/v2" }],
  };
  expect(context({ request })).toMatchObject([{ type: "Conversion", fromVersion: "v2", toVersion: "v3" }]);
});

test.each<[object, string | undefined, RegExp]>([
  [{}, undefined, /review\.json: is no AdmissionReview or ConversionReview/],
  [{ request: {} }, undefined, /choose one with --binding: one\.example\.com, two\.example\.com/],
  [{ request: {} }, "three.example.com", /has no webhook binding for it/],
])("%j for %s is an error", (review, binding, message) => {
  expect(() => context(review, binding)).toThrow(message);
});
