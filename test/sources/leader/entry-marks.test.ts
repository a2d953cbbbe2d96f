import { describe, expect, it } from "vitest";

import type { VerifiedContent } from "../../../src/sources/disk/content.ts";
import {
  buildGoodEntry,
  buildKeptEntry,
  buildUpdatedEntry,
  buildRolledBackEntry,
  describeBlockingUpdate,
  isRejected,
} from "../../../src/sources/leader/entry-marks.ts";
import type { ChartContent, LockEntry } from "../../../src/sources/types.ts";

const REQUEST = { version: "^1", order: 5 };
const WEB = { name: "web", source: "s", request: REQUEST, chart: undefined };
const content = (version: string, chart?: ChartContent): VerifiedContent => ({
  version,
  digest: `sha256:${version}`,
  chart,
  layer: { mediaType: "", digest: "", size: 0 },
  verified: { signer: { source: "k" } } as never,
});
const entry = (version: string) => ({
  source: "s",
  version,
  digest: `sha256:${version}`,
  verifiedBy: "k",
  at: 7,
});
const good: LockEntry = buildUpdatedEntry(content("1.0.0"), WEB, undefined, 7);
const updated = buildUpdatedEntry(content("1.1.0"), WEB, good, 7);
const back = buildRolledBackEntry(content("1.0.0"), WEB, updated, 7);

describe("new content", () => {
  it("of a first installation is no update", () => {
    expect(good).toEqual({ ...entry("1.0.0"), order: 5 });
  });

  it("is rolled back to the last good content", () => {
    expect(updated).toMatchObject({ isNew: true, previous: { version: "1.0.0" } });
    expect(buildUpdatedEntry(content("1.2.0"), WEB, updated, 7).previous?.version).toBe("1.0.0");
    expect(buildUpdatedEntry(content("1.2.0"), WEB, buildGoodEntry(updated), 7).previous?.version).toBe(
      "1.1.0",
    );
  });
});

describe("a chart", () => {
  const chart = { from: "https://charts.example.org", name: "web", terms: { onFailure: "rollback" } };
  const first = buildUpdatedEntry(content("1.0.0", chart), WEB, undefined, 7);
  const second = buildUpdatedEntry(content("1.1.0", chart), WEB, first, 7);

  it("stays in the entry", () => {
    expect(second).toMatchObject({ chart, previous: { version: "1.0.0" } });
    expect(buildRolledBackEntry(content("1.0.0", chart), WEB, second, 7)).toMatchObject({
      chart,
      isBack: true,
    });
    const other = { ...chart, terms: {} };
    expect(buildKeptEntry(second, { ...WEB, chart: other }, true).chart).toEqual(other);
  });

  it("is not rolled back to another one, or to a module", () => {
    for (const before of [{ ...chart, name: "other" }, undefined]) {
      const locked = buildUpdatedEntry(content("1.0.0", before), WEB, undefined, 7);
      const next = buildUpdatedEntry(content("1.1.0", chart), WEB, locked, 7);
      expect(next).toMatchObject({ isNew: true, chart });
      expect(next).not.toHaveProperty("previous");
    }
  });
});

describe("content that failed", () => {
  it("is rejected for the request, and there is no other way back", () => {
    expect(back).toMatchObject({ version: "1.0.0", isBack: true, rejected: ["sha256:1.1.0"] });
    expect(back).not.toHaveProperty("previous");
    expect(isRejected(back, REQUEST, "sha256:1.1.0")).toBe(true);
    expect(isRejected(back, { version: "1.1.0" }, "sha256:1.1.0")).toBe(false);
    expect(isRejected(back, REQUEST, "sha256:1.2.0")).toBe(false);
  });

  it("stays rejected when the next version is in use, which does not count as back", () => {
    const next = buildUpdatedEntry(content("1.2.0"), WEB, back, 7);
    expect(next).not.toHaveProperty("isBack");
    expect(isRejected(next, REQUEST, "sha256:1.1.0")).toBe(true);
  });

  it("is not rejected any more once a user lets it through", () => {
    expect(buildUpdatedEntry(content("1.1.0"), WEB, back, 7)).not.toHaveProperty("rejected");
  });

  it("is remembered ten times", () => {
    let last = good;
    for (let patch = 1; patch <= 12; patch += 1) {
      const failed = buildUpdatedEntry(content(`1.0.${patch}`), WEB, last, 7);
      last = buildRolledBackEntry(content("1.0.0"), WEB, failed, 7);
    }
    expect(last.rejected).toHaveLength(10);
    expect(last.rejected?.[0]).toBe("sha256:1.0.12");
  });
});

describe("content that stays", () => {
  const again = { ...WEB, source: "t", request: { ...REQUEST, order: 6, enabled: true } };

  it("takes over source, order and flag", () => {
    expect(buildKeptEntry({ ...good, removed: true }, again, true)).toEqual({
      ...entry("1.0.0"),
      source: "t",
      order: 6,
      enabled: true,
    });
  });

  it("keeps its marks, and when newer content was seen", () => {
    const locked = { ...updated, seen: { version: "1.2.0", digest: "sha256:1.2.0", since: 8 } };
    expect(buildKeptEntry(locked, WEB, true)).toEqual(locked);
  });

  it("is back until the registry names it, or the request changes", () => {
    expect(buildKeptEntry(back, WEB, false)).toEqual(back);
    expect(buildKeptEntry(back, WEB, true)).not.toHaveProperty("isBack");
    expect(buildKeptEntry(back, { ...WEB, request: { tag: "stable" } }, false)).toEqual(entry("1.0.0"));
  });
});

describe("another update of the source", () => {
  const old = buildUpdatedEntry(content("1.5.0"), WEB, undefined, 7);
  const isNew = buildUpdatedEntry(content("1.5.0"), WEB, old, 7);
  const lock = (change: Partial<LockEntry> = {}) =>
    new Map<string, LockEntry>([
      ["web", { ...isNew, ...change }],
      ["db", old],
      ["dns", old],
    ]);
  const before = (entries: ReadonlyMap<string, LockEntry>, name = "db", parallel = 1) =>
    describeBlockingUpdate(entries, { name, source: "s" }, parallel);

  it("waits while one is in progress, which is named", () => {
    expect(before(lock())).toBe("while the update of web to 1.5.0 is in progress");
    expect(before(new Map([["db", old]]))).toBeUndefined();
  });

  it("does not wait for itself, for another source, or for a module that is removed", () => {
    expect(before(lock(), "web")).toBeUndefined();
    expect(before(lock({ source: "t" }))).toBeUndefined();
    expect(before(lock({ removed: true }))).toBeUndefined();
  });

  it("waits only beyond the number that may be in progress", () => {
    const two = new Map([...lock(), ["dns", isNew] as const]);
    expect(before(two, "db", 3)).toBeUndefined();
    expect(before(two, "db", 2)).toContain("is in progress");
  });
});
