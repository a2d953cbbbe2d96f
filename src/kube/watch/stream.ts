/** Lists objects, and reads the streams of lists and watches; detects dead ones. */

import { yieldToEventLoop, orAborted, type Clock, type Timer } from "../../lib/index.ts";
import { asString, isJsonObject, type JsonObject } from "../../model/index.ts";
import { ConnectionError, statusError } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { acceptOf, type ApiRequest } from "../client/request.ts";
import { pathOf } from "../resources.ts";
import { ListSplitter } from "./splitters.ts";
import { selectorsOf, wholeObject, type WatchedObject, type WatchSpec } from "./watch-spec.ts";

interface ListOptions extends Omit<ReadOptions, "silenceMs"> {
  /** Request everything in one page, for servers that expire a list before the next page is requested. */
  readonly unpaged: boolean;
}

const PAGE_SIZE = 500;
const SILENCE_MS = 60_000;

/**
 * Lists everything that `spec` selects, page by page, and passes each object to `take` as it arrives; yields to
 * other work every few objects. Returns the resource version of the list. Errors as of `readStream`.
 */
export async function listObjects(
  spec: WatchSpec,
  { unpaged, ...options }: ListOptions,
  take: (object: WatchedObject) => Promise<void> | void,
): Promise<string> {
  const slice = new TimeSlice(options.clock);
  let page: JsonObject = {};
  do {
    const query = {
      ...selectorsOf(spec),
      limit: unpaged ? undefined : PAGE_SIZE,
      continue: asString(page["continue"]) || undefined,
    };
    page = await readPage(spec, { ...options, query }, async (bytes) => {
      await take(wholeObject(JSON.parse(bytes.toString("utf8")), spec));
      await slice.pause();
    });
  } while (asString(page["continue"]));
  return asString(page["resourceVersion"]) ?? "";
}

/**
 * The newest resource version of the server for the resource of `spec`; empty if it has none. Never older than a
 * version seen before, unless the server's etcd was restored. Errors as of `readStream`.
 */
export async function newestVersion(spec: WatchSpec, options: Omit<ListOptions, "unpaged">): Promise<string> {
  // Without labels, so that the server need not search for a matching object.
  const { labelSelector: _, ...anything } = spec;
  const query = { ...selectorsOf(anything), limit: 1 };
  const page = await readPage({ ...anything, metadataOnly: true }, { ...options, query }, async () => {});
  return asString(page["resourceVersion"]) ?? "";
}

/** Reads one page, passes its items to `take` as bytes, and returns the metadata of the list. */
async function readPage(
  spec: WatchSpec,
  { query, ...options }: Omit<ListOptions, "unpaged"> & Required<Pick<ApiRequest, "query">>,
  take: (bytes: Buffer) => Promise<void>,
): Promise<JsonObject> {
  const splitter = new ListSplitter();
  const request = { path: pathOf(spec.resource, spec), query, accept: acceptOf(spec, "List") };
  await readStream(request, { ...options, silenceMs: SILENCE_MS }, async (chunk) => {
    for (const bytes of splitter.push(chunk)) await take(bytes);
  });
  return metadataOf(splitter);
}

function metadataOf(splitter: ListSplitter): JsonObject {
  let list: JsonObject;
  try {
    list = splitter.end();
  } catch (cause) {
    throw new ConnectionError("ECUT", "the list ended in the middle", { cause });
  }
  if (list["kind"] === "Status") throw statusError(list);
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
 * Sends `request` and passes each chunk to `take` in order; resolves at a clean end.
 * Throws ApiError or ConnectionError, also after `silenceMs` without a byte, and the signal's reason.
 */
export async function readStream(
  request: ApiRequest,
  options: ReadOptions,
  take: (chunk: Uint8Array) => Promise<void> | void,
): Promise<void> {
  const attempt = new AbortController();
  const cut = (reason: unknown): void => attempt.abort(reason);
  const stop = (): void => cut(options.signal.reason);
  if (options.signal.aborted) throw options.signal.reason;
  options.signal.addEventListener("abort", stop, { once: true });
  const watchdog = startWatchdog(options, () =>
    cut(new ConnectionError("ESILENT", `no bytes for ${options.silenceMs / 1000} s`)),
  );
  try {
    // A transport that does not notice the abort must not delay the caller.
    const chunks = await orAborted(
      options.client.stream({ ...request, signal: attempt.signal }),
      attempt.signal,
    );
    const reader = chunks[Symbol.asyncIterator]();
    try {
      for (;;) {
        watchdog.reset();
        const next = await orAborted(reader.next(), attempt.signal);
        if (next.done === true) return;
        watchdog.rest();
        await take(next.value);
      }
    } finally {
      attempt.abort(new ConnectionError("ECLOSED", "the reader has left"));
      reader.return?.().catch(() => {});
    }
  } finally {
    watchdog.end();
    options.signal.removeEventListener("abort", stop);
  }
}

interface Watchdog {
  reset(): void;
  rest(): void;
  end(): void;
}

// One long timer that checks when the last chunk came, instead of a timer per chunk. Time spent on a chunk does not
// count as silence.
function startWatchdog(options: ReadOptions, onExpire: () => void): Watchdog {
  const { clock, silenceMs } = options;
  let last = clock.monotonic();
  let working = false;
  let timer: Timer;
  const check = (): void => {
    const idle = working ? 0 : clock.monotonic() - last;
    if (idle >= silenceMs) return onExpire();
    timer = clock.setTimer(silenceMs - idle, check);
  };
  timer = clock.setTimer(silenceMs, check);
  return {
    reset: () => {
      last = clock.monotonic();
      working = false;
    },
    rest: () => {
      working = true;
    },
    end: () => timer.cancel(),
  };
}

const SLICE_MS = 15;

/** Yields to the event loop whenever the current loop has run for 15 ms. */
export class TimeSlice {
  readonly #clock: Clock;
  #since: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#since = clock.monotonic();
  }

  /** undefined while there is time left. */
  pause(): Promise<void> | undefined {
    if (this.#clock.monotonic() - this.#since < SLICE_MS) return undefined;
    return this.#rest();
  }

  async #rest(): Promise<void> {
    await yieldToEventLoop();
    this.#since = this.#clock.monotonic();
  }
}
