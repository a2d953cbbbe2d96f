import * as fc from "fast-check";
import { expect, it } from "vitest";

import { readCorpus } from "./corpus.ts";
import { mutated } from "./mutate.ts";

/** Inputs for each face. */
export const RUNS = Number(process.env["SEEDS"] ?? 300);
/** Processor time that no input may take; most take a thousandth. */
const IN_TIME_MS = 3000;
const MOST_MEMORY = 400 * 1024 * 1024;

/** A reader of text from outside. */
export interface Face {
  readonly name: string;
  /** The file of `corpus/` with inputs. */
  readonly kind?: string;
  /** Inputs beside the corpus. */
  readonly seeds?: readonly (string | Uint8Array)[];
  /** Throws what is no answer to the input. */
  readonly feed: (input: Buffer) => unknown;
  /** How an input may be refused; by default by any error that is no mistake of the program. */
  readonly refuses?: readonly (new (...args: never[]) => Error)[];
}

const MISTAKES = [TypeError, RangeError, ReferenceError];

function isRefusal({ refuses }: Face, error: unknown): boolean {
  if (refuses !== undefined) return refuses.some((kind) => error instanceof kind);
  return error instanceof Error && !MISTAKES.some((kind) => error instanceof kind);
}

async function feed(face: Face, input: Buffer): Promise<void> {
  const before = process.cpuUsage();
  try {
    await face.feed(input);
  } catch (error) {
    if (!isRefusal(face, error)) throw error;
  }
  const { user } = process.cpuUsage(before);
  if (user / 1000 > IN_TIME_MS) throw new Error(`it took ${user / 1000} ms`);
}

/** A test for each face: mutated seeds are read or refused, in time and in bounded memory. Prints how many there were. */
export function feedAll(faces: readonly Face[]): void {
  const before = process.memoryUsage().rss;
  const seed = process.env["SEED"];
  const options = { numRuns: RUNS, ...(seed === undefined ? {} : { seed: Number(seed) }) };
  it.each(faces.map((face) => [face.name, face] as const))(
    "%s",
    { timeout: 3_600_000 },
    async (name, face) => {
      const corpus = face.kind === undefined ? [] : Object.values(readCorpus(face.kind));
      const seeds = [...corpus, ...(face.seeds ?? [])];
      for (const text of seeds) await feed(face, Buffer.from(text as string));
      await fc.assert(
        fc.asyncProperty(mutated(seeds), (input) => feed(face, input)),
        options,
      );
      expect(process.memoryUsage().rss - before).toBeLessThan(MOST_MEMORY);
      if (process.env["COUNT"] !== undefined) console.log(`${RUNS + seeds.length} inputs: ${name}`);
    },
  );
}
