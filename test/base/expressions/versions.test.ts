import { describe, expect, it } from "vitest";

import { isInRange, isRange, releaseNumbersOf } from "../../../src/base/index.ts";

describe("ranges of versions", () => {
  it.each<[string | undefined, string, boolean]>([
    ["1.4.0", ">=1.4 <2", true],
    ["2.0.0", ">=1.4 <2", false],
    ["v1.14.3", "^1.4", true],
    ["1.4.0+build.7", "1.4.x", true],
    // A pre-release counts where the range names one.
    ["1.5.0-rc.1", ">=1.4 <2", false],
    ["1.5.0-rc.1", ">=1.5.0-rc.0", true],
    ["1.5.0-rc.1", "*", true],
    // As helm reads them.
    ["1", ">=1", true],
    ["1.4", "~1.4", true],
    ["newest", "*", true],
    ["newest", ">=0", false],
    [undefined, "*", true],
    [undefined, ">=0", false],
  ])("%s is in %s: %s", (version, range, expected) => {
    expect(isInRange(version, range)).toBe(expected);
  });

  it.each([
    ["v1.31.2-gke.100", "1.31.2"],
    ["v1.30.0-rc.1+k3s1", "1.30.0"],
    ["v1.31+", "1.31.0"],
    ["", undefined],
  ])("%s has the numbers %s", (version, expected) => {
    expect(releaseNumbersOf(version)).toBe(expected);
  });

  it.each(["newest", ">=1.x.y.z", "1 to 2", ">".repeat(5000)])("%s is none", (text) => {
    expect(isRange(text)).toBe(false);
  });
});
