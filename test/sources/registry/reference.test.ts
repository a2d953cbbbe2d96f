import { expect, it } from "vitest";

import { parseReference, formatReference } from "../../../src/sources/registry/reference.ts";

const HEX = "a".repeat(64);

it.each([
  [
    "oci://Registry.example.com/modules/web:1.2",
    { host: "registry.example.com", name: "modules/web", tag: "1.2" },
  ],
  ["oci://127.0.0.1:5000/a", { host: "127.0.0.1:5000", name: "a" }],
  [
    `oci://[::1]:5000/a__b/c-d:x@sha256:${HEX}`,
    { host: "[::1]:5000", name: "a__b/c-d", tag: "x", digest: `sha256:${HEX}` },
  ],
  ["oci://docker.io/redis", { host: "registry-1.docker.io", name: "library/redis" }],
])("reads %s", (text, expected) => {
  expect(parseReference(text)).toEqual(expected);
});

it.each([
  ["https://a/b", "does not have the form"],
  ["oci://a", "does not have the form"],
  ["oci://user:secret@a/b", "does not have the form"],
  ["oci://a/B", '"B" is no repository'],
  ["oci://a/../b", "is no repository"],
  ["oci://a/b:", '"" is no tag'],
  ["oci://a/b:1+2", '"1+2" is no tag'],
  [`oci://a/b@sha256:${"A".repeat(64)}`, "is no sha256 digest"],
  ["oci://a b/c", "is no host"],
])("refuses %s", (text, message) => {
  expect(() => parseReference(text)).toThrow(message);
});

it("does not repeat credentials", () => {
  expect(() => parseReference("oci://user:secret@a/b")).toThrow(/^(?!.*secret)/);
});

it("writes what it read", () => {
  const text = `oci://a.io/b/c:1@sha256:${HEX}`;
  expect(formatReference(parseReference(text))).toBe(text);
});
