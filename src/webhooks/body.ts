/** Reads the bodies of requests, within limits for each one and for all together. */

import type { Http2ServerRequest } from "node:http2";

import { MAX_DEPTH, type Clock } from "../lib/index.ts";
import { CONVERSION_PATHS } from "../model/index.ts";
import { JsonMeter } from "./json-meter.ts";
import { ReviewError } from "./review.ts";
import { Shares, type ShareLimit } from "./shares.ts";

/** The most that one body has. A small text may have many values, of which each needs memory. */
interface BodyLimit {
  readonly bytes: number;
  readonly values: number;
}

export interface BodyLimits {
  readonly admission: BodyLimit;
  readonly conversion: BodyLimit;
  /** Of all bodies that are in memory at one time. */
  readonly bytes: ShareLimit;
  readonly values: ShareLimit;
  /** Time for a body to arrive, in ms. */
  readonly arriveMs: number;
}

/** A body counts until it is closed: what is made of it is in memory as long. */
interface Body {
  /** The text. Throws ReviewError if it exceeds a limit or does not arrive. */
  read(request: Http2ServerRequest, path: string, signal: AbortSignal): Promise<string>;
  close(): void;
}

export class Bodies {
  readonly #clock: Clock;
  readonly #limits: BodyLimits;
  readonly #bytes: Shares;
  readonly #values: Shares;

  constructor(clock: Clock, limits: BodyLimits) {
    this.#clock = clock;
    this.#limits = limits;
    this.#bytes = new Shares(limits.bytes);
    this.#values = new Shares(limits.values);
  }

  /** A body from a client at this address. The caller closes it. */
  open(address: string): Body {
    const [bytes, values] = [this.#bytes.open(address), this.#values.open(address)];
    const meter = new JsonMeter();
    let size = 0;
    const admit = (chunk: Buffer, limit: BodyLimit): void => {
      size += chunk.length;
      const before = meter.values;
      // Both are counted in any case: `close` gives them back.
      const fits = bytes.add(chunk.length);
      if (size > limit.bytes) throw new ReviewError(`the request is larger than ${limit.bytes} bytes`, 413);
      meter.add(chunk);
      const isAdmitted = values.add(meter.values - before) && fits;
      if (meter.values > limit.values)
        throw new ReviewError(`the request has more than ${limit.values} values`, 413);
      if (meter.depth > MAX_DEPTH)
        throw new ReviewError(`the request is nested deeper than ${MAX_DEPTH} levels`);
      if (!isAdmitted) throw new ReviewError("too many large requests at one time", 429);
    };
    return {
      read: async (request, path, signal) => {
        const { admission, conversion } = this.#limits;
        const limit = path.startsWith(CONVERSION_PATHS) ? conversion : admission;
        const chunks: Buffer[] = [];
        await this.#take(request, signal, (chunk) => {
          admit(chunk, limit);
          chunks.push(chunk);
        });
        return Buffer.concat(chunks).toString("utf8");
      },
      close: () => [bytes, values].forEach((each) => each.close()),
    };
  }

  /**
   * Calls `take` with each part of a request. Resolves when it has arrived as a whole; rejects if `take` throws, or if the
   * time is over. Listens to events: iterating over an HTTP/2 request does not end when the request is destroyed.
   */
  #take(request: Http2ServerRequest, signal: AbortSignal, take: (chunk: Buffer) => void): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const stop = (): void => reject(new ReviewError("the request did not arrive in time", 408));
    const taking = (chunk: Buffer): void => {
      try {
        take(chunk);
      } catch (error) {
        reject(error);
      }
    };
    const late = this.#clock.setTimer(this.#limits.arriveMs, stop);
    signal.addEventListener("abort", stop, { once: true });
    request.on("data", taking).once("end", resolve).once("close", stop);
    return promise.finally(() => {
      late.cancel();
      signal.removeEventListener("abort", stop);
      request.off("data", taking).off("end", resolve).off("close", stop);
    });
  }
}
