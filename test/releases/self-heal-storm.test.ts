import { describe, expect, test } from "vitest";
import { map, healingLab, MINUTES, SECONDS } from "./self-heal-lab.ts";

const names = (count: number): string[] => Array.from({ length: count }, (_, index) => `o${index}`);
const maps = (count: number) => names(count).map(map);

describe("healing does not storm", () => {
  test("300 objects of one release that never come are asked for a few at a time, ever less often", async () => {
    const { clock, healing, listed, requested, take } = healingLab();
    healing.setObjects("a", maps(300));
    await listed([]);
    expect(take()).toEqual([
      `a: ${names(300)
        .map((name) => `ns/ConfigMap/${name}!`)
        .join(" ")}`,
    ]);
    expect(requested.length).toBe(20);
    await clock.advance(20 * MINUTES);
    // After 0, 1, 3, 7 … 511, 1023 s.
    expect(requested.length).toBe(11 * 20);
    expect(take().length).toBe(10);
    expect(clock.timers).toBe(1);
    requested.length = 0;
    await clock.advance(60 * MINUTES);
    expect(requested.length).toBe(6 * 20);
  });

  test("runs that fail again and again do not add to it", async () => {
    const { clock, healing, listed, requested } = healingLab();
    const objects = maps(300);
    healing.setObjects("a", objects);
    await listed([]);
    for (let run = 0; run < 120; run += 1) {
      await clock.advance(30 * SECONDS);
      healing.setObjects("a", [...objects]);
    }
    expect(requested.length).toBeLessThan(17 * 20);
    expect(clock.timers).toBeLessThan(2);
  });

  test("20 releases share a ceiling of reads per second, and each gets its turn", async () => {
    const { clock, healing, listed, requested, take } = healingLab();
    for (const name of names(20)) healing.setObjects(name, maps(300));
    await listed([]);
    expect(requested.length).toBe(100);
    await clock.advance(SECONDS);
    expect(requested.length).toBe(120);
    await clock.advance(14 * SECONDS);
    expect(requested.length).toBe(400);
    expect(new Set(take().map((line) => line.split(":")[0])).size).toBe(20);
    await clock.advance(60 * MINUTES);
    expect(requested.length).toBeLessThanOrEqual(20 * 16 * 20);
    expect(clock.timers).toBe(20);
  });

  test("an API server that answers nothing for an hour is asked a few times a minute", async () => {
    const { clock, healing, listed, requested, take, mute, most } = healingLab();
    for (const name of names(20)) healing.setObjects(name, maps(300));
    mute(true);
    await listed([]);
    await clock.advance(60 * MINUTES);
    expect(take()).toEqual([]);
    expect(requested.length).toBeLessThanOrEqual(60 * 20 * 4 + 20 * 4);
    expect(most()).toBeLessThanOrEqual(4);
    expect(clock.timers).toBe(20);
    mute(false);
    await clock.advance(2 * MINUTES);
    expect(new Set(take().map((line) => line.split(":")[0])).size).toBe(20);
  });
});
