/** Limits the requests that the analyzers of all releases send. */

import PQueue from "p-queue";

import { TokenBucket, type Clock } from "../../lib/index.ts";

/** Pieces of work per second, and burst. */
const RATE = { qps: 20, burst: 100 };
const CONCURRENCY = 4;

/** Runs work as soon as the limits allow it. */
export class RequestLimit {
  readonly #queue = new PQueue({ concurrency: CONCURRENCY });
  readonly #bucket: TokenBucket;
  readonly #abort = new AbortController();

  constructor(clock: Clock) {
    this.#bucket = new TokenBucket(RATE, clock);
  }

  /** The result of `work`; undefined after `close`. */
  run<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    const { signal } = this.#abort;
    return this.#queue.add(async () => {
      await this.#bucket.takeToken(signal);
      return signal.aborted ? undefined : await work(signal);
    });
  }

  close(): void {
    this.#abort.abort();
  }
}
