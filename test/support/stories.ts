import { expect, it } from "vitest";

const requested = process.env["SEEDS"];
const FIRST = Number(process.env["SEED"] ?? 1);

/** How often something random is tried: `few` times in an ordinary run, 10,000 with `LONG`, or as `SEEDS` says. */
export function often(few: number): number {
  return Number(requested ?? (process.env["LONG"] === undefined ? few : 10_000));
}

/** Their seeds: from `SEED` on, by default from 1. */
export function seedsOf(few: number): number[] {
  return Array.from({ length: often(few) }, (_, index) => FIRST + index);
}

/** How random stories are reported. */
export interface LogContext {
  /** Stories in an ordinary run; 10,000 with `LONG`, or as many as `SEEDS` says. */
  readonly few: number;
  /** Seeds of stories in which something went wrong once: told first. */
  readonly before?: readonly number[];
}

/** A test that plays the story of many seeds and names those that fail; `SEED=n SEEDS=1` plays one again. */
export function report(
  what: string,
  { few, before = [] }: LogContext,
  story: (seed: number) => Promise<void>,
): void {
  const count = often(few);
  const seeds = seedsOf(few);
  it(`${what}: ${count} stories`, { timeout: 3_600_000 }, async () => {
    const failed: string[] = [];
    for (const seed of requested === undefined ? [...before, ...seeds] : seeds) {
      try {
        await story(seed);
      } catch (error) {
        if (count === 1) throw error;
        failed.push(`SEED=${seed} SEEDS=1: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
    expect(failed).toEqual([]);
  });
}
