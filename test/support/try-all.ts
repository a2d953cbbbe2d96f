import { afterAll, expect } from "vitest";

import { mapInParallel } from "../../src/base/index.ts";

/** Operators wait for statuses and second checks: one at a time would leave processors idle. */
const AT_ONCE = 2;

/** The numbers from 1 to `count`, every `step`-th, or those that a text names: `3` or `3-9`. */
export function selectPoints(count: number, step: number, only: string | undefined): number[] {
  const all = Array.from({ length: count }, (_, i) => i + 1);
  if (only === undefined) return all.filter((n) => (n - 1) % step === 0);
  const [first = 1, last = first] = only.split("-").map(Number);
  return all.filter((n) => n >= first && n <= last);
}

/** Something that is done at each of many points. */
interface Trial<P> {
  readonly nameOf: (point: P) => string;
  /** Resolves to whether there was such a point. */
  readonly isReached: (point: P) => Promise<boolean>;
}

/** Tries all points, some at once. Fails with the names of all that failed, and resolves to the number of those that were reached. */
export async function tryAll<P>(
  points: readonly P[],
  { nameOf, isReached }: Trial<P>,
): Promise<{ reached: number; seconds: number }> {
  const begin = performance.now();
  const failures: string[] = [];
  const reached = await mapInParallel(AT_ONCE, points, (point) =>
    isReached(point).catch((error: unknown) => {
      const { cause } = error as { readonly cause?: Error };
      failures.push(`${nameOf(point)}: ${String(error)} ${cause?.message ?? ""}`);
      return true;
    }),
  );
  const seconds = Math.round((performance.now() - begin) / 1000);
  const missed = points.filter((_, index) => reached[index] !== true).map(nameOf);
  // An act that takes another way has fewer points.
  if (missed.length > 0) console.log(`did not occur: ${missed.join(", ")}`);
  if (failures.length > 0) console.log(`${failures.length} of ${points.length} points failed`);
  expect(failures).toEqual([]);
  return { reached: reached.filter(Boolean).length, seconds };
}

/** Adds up what the tests of a file have covered, and prints the sums at the end: `12 of 63 writes`. */
export class Coverage {
  readonly #sums = new Map<string, { covered: number; all: number }>();

  constructor(title: string) {
    afterAll(() => {
      console.log(`${title}: ${[...this.#sums].map(([what, sum]) => describeSum(what, sum)).join(", ")}`);
    });
  }

  /** Counts, and describes what it was given. */
  add(what: string, covered: number, all: number): string {
    const sum = this.#sums.get(what) ?? { covered: 0, all: 0 };
    this.#sums.set(what, { covered: sum.covered + covered, all: sum.all + all });
    return describeSum(what, { covered, all });
  }
}

const describeSum = (what: string, { covered, all }: { covered: number; all: number }): string =>
  `${covered} of ${all} ${what}`;
