/** Limits the requests that the analyzers of all releases send. */

import PQueue from "p-queue";

import { TokenBucket, type Clock } from "../base/index.ts";

/** Calls of `run` per second, and burst: an event that concerns all releases at once, such as a restored etcd, must not flood the API server. */
const RATE = { qps: 20, burst: 100 };
/** Calls of `run` that work at the same time. */
const CONCURRENCY = 4;

/** Limits rate and concurrency of requests: runs each piece of work as soon as the limits allow it. */
export class RequestLimit {
  readonly #queue = new PQueue({ concurrency: CONCURRENCY });
  readonly #bucket: TokenBucket;
  readonly #abortController = new AbortController();

  constructor(clock: Clock) {
    this.#bucket = new TokenBucket(RATE, clock);
  }

  /** Waits until the limits allow it, then runs `work` and returns its result; undefined after `close`. */
  run<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    const { signal } = this.#abortController;
    return this.#queue.add(async () => {
      await this.#bucket.takeToken(signal);
      return signal.aborted ? undefined : await work(signal);
    });
  }

  close(): void {
    this.#abortController.abort();
  }
}
