import { expect, test } from "vitest";

import {
  normalizeChartLocation,
  isWithinLocations,
  isChartRepository,
} from "../../../src/sources/registry/index.ts";

test.each([
  ["https://charts.example.org", "https://charts.example.org"],
  ["https://Charts.Example.org:443/a/", "https://charts.example.org/a"],
  ["http://127.0.0.1:8080/a/b", "http://127.0.0.1:8080/a/b"],
  ["oci://Registry.example.com:5000/charts", "oci://registry.example.com:5000/charts"],
  ["oci://docker.io/bitnamicharts", "oci://registry-1.docker.io/bitnamicharts"],
])("%s is the place %s", (text, place) => {
  expect(normalizeChartLocation(text)).toBe(place);
});

test.each([
  "charts.example.org",
  "ftp://a/b",
  "https://user:word@a/b",
  "https://a/b?token=c",
  "https://a/b#c",
  "https://a/../b",
  "https://a/%2e%2e/b",
  "https://a/b//c",
  "https://a\\b",
  "https://a/b,c",
  "https://",
  "oci://a:99999999/b",
])("%s is no place", (text) => {
  expect(normalizeChartLocation(text)).toBeUndefined();
});

test("a place is allowed where it, or one above it, is named", () => {
  const allowed = ["https://a.example/charts", "oci://r.example"];
  expect(
    ["https://a.example/charts", "https://a.example/charts/b", "oci://r.example/c"].map((each) =>
      isWithinLocations(each, allowed),
    ),
  ).toEqual([true, true, true]);
  const others = [
    "https://a.example/charts2",
    "https://a.example",
    "http://a.example/charts",
    "oci://r.example.org/c",
    "https://r.example",
  ];
  expect(others.filter((each) => isWithinLocations(each, allowed))).toEqual([]);
  expect(["oci://a/b", "https://a"].map(isChartRepository)).toEqual([false, true]);
});
