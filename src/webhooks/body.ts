/** Reads the bodies of requests, within limits for each one and for all together. */

import type { Http2ServerRequest } from "node:http2";

import { ByteCollector, JsonMeter, MAX_DEPTH, Timers, type Clock } from "../base/index.ts";
import { CONVERSION_PATHS } from "../base/model/index.ts";
import { Shares, type BodyLimit, type BodyLimits } from "./limits.ts";
import { ReviewError } from "./review.ts";

/** The body of one request. It counts against the limits until it is closed, because the parsed review is in memory that long. */
interface Body {
  /** Receives the text. Throws ReviewError if the body exceeds a limit or does not arrive in time. */
  read(request: Http2ServerRequest, path: string, signal: AbortSignal): Promise<string>;
  /** Frees the share of the limits that the body uses. */
  close(): void;
}

/** Each piece of a body costs time. API servers and proxies send pieces of a kilobyte and more. */
const MIN_PIECE_BYTES = 64;
const FREE_PIECES = 1000;

/** Receives request bodies, and counts their bytes and JSON values against the limits of one body, one client address and all. */
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

  /** Starts to count the body of a request from a client at this address. The caller must close it. */
  openBody(address: string): Body {
    const byteShare = this.#bytes.openShare(address);
    const valueShare = this.#values.openShare(address);
    const meter = new JsonMeter();
    let size = 0;
    let pieceCount = 0;
    // Throws at the first chunk that exceeds a limit, before the rest of the body is in memory.
    const countChunk = (chunk: Buffer, limit: BodyLimit): void => {
      size += chunk.length;
      pieceCount += 1;
      const valuesBefore = meter.values;
      // Bytes and values are counted even if they exceed a limit: `close` subtracts them again.
      const bytesFit = byteShare.add(chunk.length);
      if (pieceCount > FREE_PIECES && size < pieceCount * MIN_PIECE_BYTES)
        throw new ReviewError("the request arrives in too small pieces");
      if (size > limit.bytes) throw new ReviewError(`the request is larger than ${limit.bytes} bytes`, 413);
      meter.add(chunk);
      const isAdmitted = valueShare.add(meter.values - valuesBefore) && bytesFit;
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
        const collector = new ByteCollector();
        await this.#forEachChunk(request, signal, (chunk) => {
          countChunk(chunk, limit);
          collector.add(chunk);
        });
        return collector.take().toString("utf8");
      },
      close: () => {
        byteShare.close();
        valueShare.close();
      },
    };
  }

  /**
   * Calls `onChunk` with each part of a request. Resolves when the whole request has arrived; rejects if `onChunk` throws, or
   * if the request does not arrive in time. Uses events, because `for await` over an HTTP/2 request never ends if the request
   * is destroyed.
   */
  #forEachChunk(
    request: Http2ServerRequest,
    signal: AbortSignal,
    onChunk: (chunk: Buffer) => void,
  ): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const rejectLate = (): void => reject(new ReviewError("the request did not arrive in time", 408));
    const handleChunk = (chunk: Buffer): void => {
      try {
        onChunk(chunk);
      } catch (error) {
        reject(error);
      }
    };
    const timers = new Timers<"arrive">(this.#clock);
    timers.set("arrive", this.#limits.arriveMs, rejectLate);
    signal.addEventListener("abort", rejectLate, { once: true });
    request.on("data", handleChunk).once("end", resolve).once("close", rejectLate);
    return promise.finally(() => {
      timers.close();
      signal.removeEventListener("abort", rejectLate);
      request.off("data", handleChunk).off("end", resolve).off("close", rejectLate);
    });
  }
}
