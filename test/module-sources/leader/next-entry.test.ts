import { describe, expect, it } from "vitest";

import { isRejected } from "../../../src/module-sources/choose.ts";
import {
  buildKeptEntry,
  buildUpdatedEntry,
  buildRolledBackEntry,
} from "../../../src/module-sources/leader/next-entry.ts";
import type { LockEntry } from "../../../src/module-sources/types.ts";

const REQUEST = { version: "^1", order: 5 };
const content = (version: string) => ({
  source: "s",
  version,
  digest: `sha256:${version}`,
  verifiedBy: "k",
  at: 7,
});
const proven: LockEntry = buildUpdatedEntry(content("1.0.0"), REQUEST, undefined);
const updated = buildUpdatedEntry(content("1.1.0"), REQUEST, proven);
const back = buildRolledBackEntry(content("1.0.0"), REQUEST, updated);

describe("new content", () => {
  it("of a first installation is no update", () => {
    expect(proven).toEqual({ ...content("1.0.0"), order: 5 });
  });

  it("goes back to the last content that has proven itself", () => {
    expect(updated).toMatchObject({ isNew: true, previous: { version: "1.0.0" } });
    expect(buildUpdatedEntry(content("1.2.0"), REQUEST, updated).previous?.version).toBe("1.0.0");
    const { isNew: _, ...settled } = updated;
    expect(buildUpdatedEntry(content("1.2.0"), REQUEST, settled).previous?.version).toBe("1.1.0");
  });
});

describe("a chart", () => {
  const chart = { from: "https://charts.example.org", name: "web", terms: { onFailure: "rollback" } };
  const first = buildUpdatedEntry({ ...content("1.0.0"), chart }, REQUEST, undefined);
  const second = buildUpdatedEntry({ ...content("1.1.0"), chart }, REQUEST, first);

  it("stays in the entry", () => {
    expect(second).toMatchObject({ chart, previous: { version: "1.0.0" } });
    expect(buildRolledBackEntry({ ...content("1.0.0"), chart }, REQUEST, second)).toMatchObject({
      chart,
      isBack: true,
    });
    const other = { ...chart, terms: {} };
    expect(
      buildKeptEntry(second, { source: "s", request: REQUEST, chart: other, isRequested: true }).chart,
    ).toEqual(other);
  });

  it("has no way back to another one, or to a module", () => {
    for (const before of [{ ...chart, name: "other" }, undefined]) {
      const locked = buildUpdatedEntry(
        { ...content("1.0.0"), ...(before && { chart: before }) },
        REQUEST,
        undefined,
      );
      const next = buildUpdatedEntry({ ...content("1.1.0"), chart }, REQUEST, locked);
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
    const next = buildUpdatedEntry(content("1.2.0"), REQUEST, back);
    expect(next).not.toHaveProperty("isBack");
    expect(isRejected(next, REQUEST, "sha256:1.1.0")).toBe(true);
  });

  it("is not rejected any more once a user lets it through", () => {
    expect(buildUpdatedEntry(content("1.1.0"), REQUEST, back)).not.toHaveProperty("rejected");
  });

  it("is remembered ten times", () => {
    let entry = proven;
    for (let patch = 1; patch <= 12; patch += 1)
      entry = buildRolledBackEntry(
        content("1.0.0"),
        REQUEST,
        buildUpdatedEntry(content(`1.0.${patch}`), REQUEST, entry),
      );
    expect(entry.rejected).toHaveLength(10);
    expect(entry.rejected?.[0]).toBe("sha256:1.0.12");
  });
});

describe("content that stays", () => {
  const again = { source: "t", request: { ...REQUEST, order: 6, enabled: true }, chart: undefined };

  it("takes over source, order and flag", () => {
    expect(buildKeptEntry({ ...proven, removed: true }, { ...again, isRequested: true })).toEqual({
      ...content("1.0.0"),
      source: "t",
      order: 6,
      enabled: true,
    });
  });

  it("is back until the registry names it, or the request changes", () => {
    const same = { source: "s", request: REQUEST, chart: undefined };
    expect(buildKeptEntry(back, { ...same, isRequested: false })).toEqual(back);
    expect(buildKeptEntry(back, { ...same, isRequested: true })).not.toHaveProperty("isBack");
    expect(buildKeptEntry(back, { ...same, request: { tag: "stable" }, isRequested: false })).toEqual(
      content("1.0.0"),
    );
  });
});
