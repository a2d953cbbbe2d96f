/** Lists objects, and reads the streams of lists and watches; detects dead connections. */

import { yieldToEventLoop, orAborted, type Clock, type Timer } from "../../lib/index.ts";
import { asString, isJsonObject, type JsonObject } from "../../model/index.ts";
import { ConnectionError, statusToApiError } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { formatAcceptHeader, type ApiRequest } from "../client/request.ts";
import { pathOf } from "../resources.ts";
import { ListSplitter } from "./splitters.ts";
import { toSelectorQuery, completeObject, type WatchedObject, type WatchSpec } from "./watch-spec.ts";

interface ListOptions extends Omit<ReadOptions, "silenceMs"> {
  /** Request everything in one page, for servers that expire a list before the next page is requested. */
  readonly unpaged: boolean;
}

const PAGE_SIZE = 500;
/** A list is given up when no byte arrives for this long. */
const LIST_SILENCE_MS = 60_000;

/**
 * Lists everything that `spec` selects, page by page, and passes each object to `onObject` as it arrives; yields to
 * other work every few objects. Returns the resource version of the list. Errors as of `readStream`.
 */
export async function listObjects(
  spec: WatchSpec,
  { unpaged, ...options }: ListOptions,
  onObject: (object: WatchedObject) => Promise<void> | void,
): Promise<string> {
  const timeSlice = new TimeSlice(options.clock);
  let page: JsonObject = {};
  do {
    const query = {
      ...toSelectorQuery(spec),
      limit: unpaged ? undefined : PAGE_SIZE,
      continue: asString(page["continue"]) || undefined,
    };
    page = await readPage(spec, { ...options, query }, async (bytes) => {
      await onObject(completeObject(JSON.parse(bytes.toString("utf8")), spec));
      await timeSlice.yieldWhenUsedUp();
    });
  } while (asString(page["continue"]));
  return asString(page["resourceVersion"]) ?? "";
}

/**
 * Requests the server's newest resource version for the resource of `spec`; empty if it has none. Never older than a
 * version seen before, unless the server's etcd was restored. Errors as of `readStream`.
 */
export async function requestNewestVersion(
  spec: WatchSpec,
  options: Omit<ListOptions, "unpaged">,
): Promise<string> {
  // Without labels, so that the server need not search for a matching object.
  const { labelSelector: _, ...withoutLabels } = spec;
  const query = { ...toSelectorQuery(withoutLabels), limit: 1 };
  const page = await readPage(
    { ...withoutLabels, metadataOnly: true },
    { ...options, query },
    async () => {},
  );
  return asString(page["resourceVersion"]) ?? "";
}

/** Reads one page, passes its items to `onItem` as bytes, and returns the metadata of the list. */
async function readPage(
  spec: WatchSpec,
  { query, ...options }: Omit<ListOptions, "unpaged"> & Required<Pick<ApiRequest, "query">>,
  onItem: (bytes: Buffer) => Promise<void>,
): Promise<JsonObject> {
  const splitter = new ListSplitter();
  const request = { path: pathOf(spec.resource, spec), query, accept: formatAcceptHeader(spec, "List") };
  await readStream(request, { ...options, silenceMs: LIST_SILENCE_MS }, async (chunk) => {
    for (const bytes of splitter.push(chunk)) await onItem(bytes);
  });
  return readListMetadata(splitter);
}

/** Reads the metadata that a list has beside its items. Throws ApiError if the server sent a Status instead of a list. */
function readListMetadata(splitter: ListSplitter): JsonObject {
  let list: JsonObject;
  try {
    list = splitter.finish();
  } catch (cause) {
    throw new ConnectionError("ECUT", "the list ended in the middle", { cause });
  }
  if (list["kind"] === "Status") throw statusToApiError(list);
  return isJsonObject(list["metadata"]) ? list["metadata"] : {};
}

/** How a stream is read. */
interface ReadOptions {
  readonly client: Pick<KubeClient, "stream">;
  readonly clock: Clock;
  /** Ends the reading. */
  readonly signal: AbortSignal;
  /** Give up when nothing arrives for this long, in milliseconds. */
  readonly silenceMs: number;
}

/**
 * Sends `request` and passes each chunk to `onChunk` in order; resolves at a clean end.
 * Throws ApiError or ConnectionError, also after `silenceMs` without a byte, and the signal's reason.
 */
export async function readStream(
  request: ApiRequest,
  options: ReadOptions,
  onChunk: (chunk: Uint8Array) => Promise<void> | void,
): Promise<void> {
  const requestController = new AbortController();
  const onCallerAbort = (): void => requestController.abort(options.signal.reason);
  if (options.signal.aborted) throw options.signal.reason;
  options.signal.addEventListener("abort", onCallerAbort, { once: true });
  const watchdog = startWatchdog(options, () =>
    requestController.abort(new ConnectionError("ESILENT", `no bytes for ${options.silenceMs / 1000} s`)),
  );
  try {
    // A transport that does not notice the abort must not delay the caller.
    const chunks = await orAborted(
      options.client.stream({ ...request, signal: requestController.signal }),
      requestController.signal,
    );
    const reader = chunks[Symbol.asyncIterator]();
    try {
      for (;;) {
        watchdog.reset();
        const next = await orAborted(reader.next(), requestController.signal);
        if (next.done === true) return;
        watchdog.pause();
        await onChunk(next.value);
      }
    } finally {
      requestController.abort(new ConnectionError("ECLOSED", "the reader has left"));
      reader.return?.().catch(() => {});
    }
  } finally {
    watchdog.end();
    options.signal.removeEventListener("abort", onCallerAbort);
  }
}

interface Watchdog {
  /** Measures the silence from now on. */
  reset(): void;
  /** The time until the next `reset` does not count as silence: the reader works on a chunk. */
  pause(): void;
  end(): void;
}

/** Calls `onExpire` after `silenceMs` of silence. One long timer checks when the last chunk came, instead of a timer per chunk. */
function startWatchdog(options: ReadOptions, onExpire: () => void): Watchdog {
  const { clock, silenceMs } = options;
  let silentSince = clock.monotonic();
  let isPaused = false;
  let timer: Timer;
  const check = (): void => {
    const silentMs = isPaused ? 0 : clock.monotonic() - silentSince;
    if (silentMs >= silenceMs) return onExpire();
    timer = clock.setTimer(silenceMs - silentMs, check);
  };
  timer = clock.setTimer(silenceMs, check);
  return {
    reset: () => {
      silentSince = clock.monotonic();
      isPaused = false;
    },
    pause: () => {
      isPaused = true;
    },
    end: () => timer.cancel(),
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
    return this.#yieldNow();
  }

  async #yieldNow(): Promise<void> {
    await yieldToEventLoop();
    this.#startedAt = this.#clock.monotonic();
  }
}
