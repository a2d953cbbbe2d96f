import { describe, expect, it } from "vitest";

import { isRejected } from "../../../../src/supply/choose.ts";
import { stayed, taken, wentBack } from "../../../../src/supply/lead/entry/next-entry.ts";
import type { LockEntry } from "../../../../src/supply/types.ts";

const WISH = { version: "^1", order: 5 };
const content = (version: string) => ({
  source: "s",
  version,
  digest: `sha256:${version}`,
  verifiedBy: "k",
  at: 7,
});
const proven: LockEntry = taken(content("1.0.0"), WISH, undefined);
const updated = taken(content("1.1.0"), WISH, proven);
const back = wentBack(content("1.0.0"), WISH, updated);

describe("new content", () => {
  it("of a first installation is no update", () => {
    expect(proven).toEqual({ ...content("1.0.0"), order: 5 });
  });

  it("goes back to the last content that has proven itself", () => {
    expect(updated).toMatchObject({ isNew: true, previous: { version: "1.0.0" } });
    expect(taken(content("1.2.0"), WISH, updated).previous?.version).toBe("1.0.0");
    const { isNew: _, ...settled } = updated;
    expect(taken(content("1.2.0"), WISH, settled).previous?.version).toBe("1.1.0");
  });
});

describe("a chart", () => {
  const chart = { from: "https://charts.example.org", name: "web", terms: { onFailure: "rollback" } };
  const first = taken({ ...content("1.0.0"), chart }, WISH, undefined);
  const second = taken({ ...content("1.1.0"), chart }, WISH, first);

  it("stays in the entry", () => {
    expect(second).toMatchObject({ chart, previous: { version: "1.0.0" } });
    expect(wentBack({ ...content("1.0.0"), chart }, WISH, second)).toMatchObject({ chart, isBack: true });
    const other = { ...chart, terms: {} };
    expect(stayed(second, { source: "s", wish: WISH, chart: other, isWished: true }).chart).toEqual(other);
  });

  it("has no way back to another one, or to a module", () => {
    for (const before of [{ ...chart, name: "other" }, undefined]) {
      const locked = taken({ ...content("1.0.0"), ...(before && { chart: before }) }, WISH, undefined);
      const next = taken({ ...content("1.1.0"), chart }, WISH, locked);
      expect(next).toMatchObject({ isNew: true, chart });
      expect(next).not.toHaveProperty("previous");
    }
  });
});

describe("content that failed", () => {
  it("is rejected for the wish, and there is no other way back", () => {
    expect(back).toMatchObject({ version: "1.0.0", isBack: true, rejected: ["sha256:1.1.0"] });
    expect(back).not.toHaveProperty("previous");
    expect(isRejected(back, WISH, "sha256:1.1.0")).toBe(true);
    expect(isRejected(back, { version: "1.1.0" }, "sha256:1.1.0")).toBe(false);
    expect(isRejected(back, WISH, "sha256:1.2.0")).toBe(false);
  });

  it("stays rejected when the next version is in use, which does not count as back", () => {
    const next = taken(content("1.2.0"), WISH, back);
    expect(next).not.toHaveProperty("isBack");
    expect(isRejected(next, WISH, "sha256:1.1.0")).toBe(true);
  });

  it("is not rejected any more once a user lets it through", () => {
    expect(taken(content("1.1.0"), WISH, back)).not.toHaveProperty("rejected");
  });

  it("is remembered ten times", () => {
    let entry = proven;
    for (let patch = 1; patch <= 12; patch += 1)
      entry = wentBack(content("1.0.0"), WISH, taken(content(`1.0.${patch}`), WISH, entry));
    expect(entry.rejected).toHaveLength(10);
    expect(entry.rejected?.[0]).toBe("sha256:1.0.12");
  });
});

describe("content that stays", () => {
  const again = { source: "t", wish: { ...WISH, order: 6, enabled: true }, chart: undefined };

  it("takes over source, order and flag", () => {
    expect(stayed({ ...proven, removed: true }, { ...again, isWished: true })).toEqual({
      ...content("1.0.0"),
      source: "t",
      order: 6,
      enabled: true,
    });
  });

  it("is back until the registry names it, or the wish changes", () => {
    const same = { source: "s", wish: WISH, chart: undefined };
    expect(stayed(back, { ...same, isWished: false })).toEqual(back);
    expect(stayed(back, { ...same, isWished: true })).not.toHaveProperty("isBack");
    expect(stayed(back, { ...same, wish: { tag: "stable" }, isWished: false })).toEqual(content("1.0.0"));
  });
});
