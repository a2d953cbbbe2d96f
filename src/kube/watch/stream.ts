/** Reads the streams of lists and watches: detects dead connections, splits watches into lines, and completes the objects in both. */

import {
  ByteCollector,
  cutDeepParts,
  orAborted,
  Timers,
  yieldToEventLoop,
  type Clock,
} from "../../base/index.ts";
import { isJsonObject } from "../../base/model/index.ts";
import { ConnectionError, OversizeError } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import type { ApiRequest } from "../client/request.ts";
import { apiVersionOf } from "../resources.ts";
import type { WatchedObject, WatchSpec } from "./watch-spec.ts";

export interface StreamOptions {
  readonly client: Pick<KubeClient, "stream">;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Give up when nothing arrives for this long, in milliseconds. */
  readonly silenceMs: number;
  /** The server has begun to answer. */
  readonly onOpen?: () => void;
}

/**
 * Sends `request` and passes each chunk to `onChunk` in order; resolves at a clean end.
 * Throws ApiError or ConnectionError, also after `silenceMs` without a byte, and the signal's reason.
 */
export async function readStream(
  request: ApiRequest,
  options: StreamOptions,
  onChunk: (chunk: Uint8Array) => Promise<void> | void,
): Promise<void> {
  const requestController = new AbortController();
  const onCallerAbort = (): void => requestController.abort(options.signal.reason);
  if (options.signal.aborted) throw options.signal.reason;
  options.signal.addEventListener("abort", onCallerAbort, { once: true });
  const silenceTimer = startSilenceTimer(options, () =>
    requestController.abort(new ConnectionError("ESILENT", `no bytes for ${options.silenceMs / 1000} s`)),
  );
  try {
    // A transport that does not notice the abort must not delay the caller.
    const chunks = await orAborted(
      options.client.stream({ ...request, signal: requestController.signal }),
      requestController.signal,
    );
    options.onOpen?.();
    const reader = chunks[Symbol.asyncIterator]();
    try {
      for (;;) {
        silenceTimer.reset();
        const next = await orAborted(reader.next(), requestController.signal);
        if (next.done === true) return;
        silenceTimer.pause();
        await onChunk(next.value);
      }
    } finally {
      // Closes the connection if the body is not read to its end.
      requestController.abort(new ConnectionError("ECLOSED", "the reader has left"));
      reader.return?.().catch(() => {});
    }
  } finally {
    silenceTimer.end();
    options.signal.removeEventListener("abort", onCallerAbort);
  }
}

interface SilenceTimer {
  /** Measures the silence from now on. */
  reset(): void;
  /** The time until the next `reset` does not count as silence: the reader works on a chunk. */
  pause(): void;
  end(): void;
}

/** Calls `onExpire` after `silenceMs` of silence. One long timer checks when the last chunk came, instead of a timer per chunk. */
function startSilenceTimer(options: StreamOptions, onExpire: () => void): SilenceTimer {
  const { clock, silenceMs } = options;
  let silentSince = clock.monotonic();
  let isPaused = false;
  const timers = new Timers<"check">(clock);
  const check = (): void => {
    const silentMs = isPaused ? 0 : clock.monotonic() - silentSince;
    if (silentMs >= silenceMs) return onExpire();
    timers.set("check", silenceMs - silentMs, check);
  };
  timers.set("check", silenceMs, check);
  return {
    reset: () => {
      silentSince = clock.monotonic();
      isPaused = false;
    },
    pause: () => {
      isPaused = true;
    },
    end: () => timers.close(),
  };
}

const SLICE_MS = 15;

/** Lets a long loop yield to the event loop whenever it has run for 15 ms, so that a large list does not delay probes and the lease. */
export class TimeSlice {
  readonly #clock: Clock;
  #startedAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startedAt = clock.monotonic();
  }

  /** Call it after each item. Undefined, so that nothing is awaited, while there is time left. */
  yieldWhenUsedUp(): Promise<void> | undefined {
    if (this.#clock.monotonic() - this.#startedAt < SLICE_MS) return undefined;
    return yieldToEventLoop().then(() => {
      this.#startedAt = this.#clock.monotonic();
    });
  }
}

/**
 * The most bytes of one object in a list or a watch. etcd stores objects of at most 1.5 MiB by default; servers with their own storage may
 * allow more.
 */
const MAX_OBJECT_MIB = 16;
const MAX_OBJECT_BYTES = MAX_OBJECT_MIB * 1024 * 1024;

/** Collects the chunks of one item and joins their bytes once, at its end. Throws OversizeError for an item that is too large or endless. */
export class ChunkBuffer {
  readonly #collector = new ByteCollector();

  get isEmpty(): boolean {
    return this.#collector.size === 0;
  }

  add(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    if (this.#collector.size + chunk.length > MAX_OBJECT_BYTES)
      throw new OversizeError(`the server sent an object that is larger than ${MAX_OBJECT_MIB} MiB`);
    this.#collector.add(chunk);
  }

  /** Returns everything added since the last call, and empties the buffer. The result can share the memory of a single chunk. */
  drain(): Buffer {
    return this.#collector.take();
  }
}

const NEWLINE = 0x0a;

/** Splits a watch stream into lines; an incomplete line waits for the next chunk. */
export class FrameSplitter {
  readonly #incompleteLine = new ChunkBuffer();

  get hasIncompleteLine(): boolean {
    return !this.#incompleteLine.isEmpty;
  }

  /** Returns the non-empty lines that `chunk` completes. They may share memory with it. */
  push(chunk: Uint8Array): Buffer[] {
    const lines: Buffer[] = [];
    let lineStart = 0;
    for (let lineEnd = chunk.indexOf(NEWLINE); lineEnd >= 0; lineEnd = chunk.indexOf(NEWLINE, lineStart)) {
      this.#incompleteLine.add(chunk.subarray(lineStart, lineEnd));
      lineStart = lineEnd + 1;
      const line = this.#incompleteLine.drain();
      if (line.length > 0) lines.push(line);
    }
    this.#incompleteLine.add(chunk.subarray(lineStart));
    return lines;
  }
}

/**
 * Turns a parsed item into a complete object: adds apiVersion and kind, which items of lists omit, and drops managedFields unless the spec keeps
 * them, and parts that are nested too deep. Throws a SyntaxError if `value` is not an object with a name.
 */
export function completeObject(value: unknown, spec: WatchSpec): WatchedObject {
  if (!isJsonObject(value) || !isJsonObject(value["metadata"]))
    throw new SyntaxError("not a Kubernetes object");
  const meta = value["metadata"];
  if (typeof meta["name"] !== "string") throw new SyntaxError("an object without a name");
  if (spec.keepManagedFields !== true && meta["managedFields"] !== undefined) delete meta["managedFields"];
  if (typeof value["kind"] === "string" && typeof value["apiVersion"] === "string")
    return cutDeepParts(value as WatchedObject);
  const { resource } = spec;
  return cutDeepParts({ apiVersion: apiVersionOf(resource), kind: resource.kind, ...value } as WatchedObject);
}
