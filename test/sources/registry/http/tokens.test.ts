import { expect, it } from "vitest";

import { findChallenge } from "../../../../src/sources/registry/http/tokens.ts";

const found = (...headers: string[]): unknown => {
  const challenge = findChallenge(headers);
  return challenge && [challenge.scheme, Object.fromEntries(challenge.parameters)];
};

it.each([
  [
    'Bearer realm="https://a/t",service="s",scope="repository:a/b:pull,push"',
    ["bearer", { realm: "https://a/t", service: "s", scope: "repository:a/b:pull,push" }],
  ],
  ["BASIC realm=plain", ["basic", { realm: "plain" }]],
  ['Negotiate abc==, bearer Realm = "x \\"y\\""', ["bearer", { realm: 'x "y"' }]],
  ["Negotiate", undefined],
  ['Negotiate, Basic realm="a, b"', ["basic", { realm: "a, b" }]],
  ["", undefined],
])("reads %s", (header, expected) => {
  expect(found(header)).toEqual(expected);
});

it("takes the first usable challenge of several headers", () => {
  expect(found("Negotiate", 'Basic realm="a"', 'Bearer realm="b"')).toEqual(["basic", { realm: "a" }]);
});

it("reads a long hostile header in linear time", () => {
  expect(found(`${"a =".repeat(100_000)}"`)).toBeUndefined();
});
