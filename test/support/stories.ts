import { expect, it } from "vitest";

const asked = process.env["SEEDS"];
const FIRST = Number(process.env["SEED"] ?? 1);

/** How often something random is tried: `few` times in an ordinary run, 10,000 with `LONG`, or as `SEEDS` says. */
export function often(few: number): number {
  return Number(asked ?? (process.env["LONG"] === undefined ? few : 10_000));
}

/** How random stories are told. */
export interface Telling {
  /** Stories in an ordinary run; 10,000 with `LONG`, or as many as `SEEDS` says. */
  readonly few: number;
  /** Seeds of stories in which something went wrong once: told first. */
  readonly before?: readonly number[];
}

/** A test that tells the story of many seeds and names those that fail; `SEED=n SEEDS=1` tells one again. */
export function tell(
  what: string,
  { few, before = [] }: Telling,
  story: (seed: number) => Promise<void>,
): void {
  const count = often(few);
  const seeds = Array.from({ length: count }, (_, index) => FIRST + index);
  it(`${what}: ${count} stories`, { timeout: 3_600_000 }, async () => {
    const failed: string[] = [];
    for (const seed of asked === undefined ? [...before, ...seeds] : seeds) {
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
