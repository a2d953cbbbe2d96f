/** Runs work on many items: a few at a time, or in order; and awaits it only where that is necessary. */

import PQueue from "p-queue";

/** Runs `work` for each item, at most `limit` at a time; results in the order of the items. Throws the first error, after which none begins. */
export async function mapInParallel<T, R>(
  limit: number,
  items: readonly T[],
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const failure = new AbortController();
  const jobs = items.map((item) => async () => {
    failure.signal.throwIfAborted();
    return work(item).catch((error: unknown) => {
      failure.abort(error);
      throw error;
    });
  });
  return new PQueue({ concurrency: limit }).addAll(jobs);
}

/** Runs at most `limit` works at a time, in the order of their arrival. */
export class ParallelLimit {
  readonly #queue: PQueue;

  constructor(limit: number) {
    this.#queue = new PQueue({ concurrency: limit });
  }

  /** Runs `work` in its turn, or at once when the signal is aborted, so that it can say so. */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const begin = Promise.withResolvers<undefined>();
    const end = Promise.withResolvers<undefined>();
    const mayBegin = (): void => begin.resolve(undefined);
    void this.#queue.add(() => {
      mayBegin();
      return end.promise;
    });
    if (signal.aborted) mayBegin();
    signal.addEventListener("abort", mayBegin, { once: true });
    try {
      await begin.promise;
      return await work();
    } finally {
      signal.removeEventListener("abort", mayBegin);
      end.resolve(undefined);
    }
  }
}

/** Joins promises for a caller that awaits them only if there are any: undefined where none is pending. */
export function whenAll(promises: readonly (Promise<void> | undefined)[]): Promise<void> | undefined {
  const pending = promises.filter((promise) => promise !== undefined);
  return pending.length === 0 ? undefined : Promise.all(pending).then(() => {});
}

/**
 * Runs steps in the order of their arrival, although each first waits for its input. A step runs synchronously if its
 * input is ready and no earlier step is pending.
 */
export class Sequence {
  #lastTurn: Promise<void> | undefined;

  /** Runs `step` with the result of `input`, which must not reject. The promise, if there is one, resolves after the step. */
  run<T>(input: T | Promise<T>, step: (value: T) => void): Promise<void> | undefined {
    if (this.#lastTurn === undefined && !(input instanceof Promise)) {
      step(input);
      return undefined;
    }
    const earlierTurn = this.#lastTurn;
    const turn = (async () => {
      const value = await input;
      await earlierTurn?.catch(() => {});
      step(value);
    })();
    this.#lastTurn = turn;
    // Without a pending turn, the next step may run synchronously.
    const forgetTurn = (): void => {
      if (this.#lastTurn === turn) this.#lastTurn = undefined;
    };
    turn.then(forgetTurn, forgetTurn);
    return turn;
  }
}
