import { describe, expect, it } from "vitest";

import { isConfirmedMissing } from "../../../src/modules/index.ts";
import { ManualClock } from "../../support/clock.ts";
import { directories } from "../module-directories.ts";

const DAY_MS = 24 * 3_600_000;
const missedSince = (since: number) => ({ since, what: ["."] });

it.each([
  ["present", { dir: "/nowhere" }, false],
  ["missed a moment ago", { dir: "/nowhere", unconfirmedMissing: missedSince(9000) }, false],
  ["missed for two seconds", { dir: "/nowhere", unconfirmedMissing: missedSince(8000) }, true],
  ["missed for two seconds, and back", { dir: "/", unconfirmedMissing: missedSince(8000) }, false],
])("whether a directory that is %s is surely missing", (_, module, expected) => {
  expect(isConfirmedMissing(module, new ManualClock(10_000))).toBe(expected);
});

describe.each([
  ["back", -DAY_MS],
  ["ahead", DAY_MS],
])("when the wall clock is set %s after a directory was missed", (_, ms) => {
  it("is surely missing two seconds later, and no sooner", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    await on.put("m/y/README.md");
    const first = await on.read();
    await on.remove("m/x");
    const missed = (await on.read(first)).modules[0] as { dir: string };
    on.clock.setWall(ms);
    await on.clock.advance(1999);
    expect(isConfirmedMissing(missed, on.clock)).toBe(false);
    await on.clock.advance(1);
    expect(isConfirmedMissing(missed, on.clock)).toBe(true);
  });
});
