/** Reads the streams of lists and watches, notices when one is dead, and cuts it into objects. */

import { breathe, orAborted, type Clock, type Timer } from "../../lib/index.ts";
import { isJsonObject, type JsonObject } from "../../model/index.ts";
import { ConnectionError, statusError } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { acceptOf, type ApiRequest } from "../client/request.ts";
import { pathOf } from "../resources.ts";
import { selectorsOf, wholeObject, type WatchedObject, type WatchSpec } from "./watch-spec.ts";

interface ListOptions extends Omit<ReadOptions, "silenceMs"> {
  /** Ask for everything in one answer: for servers that expire a list before the next page is asked for. */
  readonly unpaged: boolean;
}

const PAGE_SIZE = 500;
const SILENCE_MS = 60_000;

/**
 * Lists everything that `spec` selects, page by page, and hands each object to `take` as it arrives; other work
 * gets its turn every few objects. Returns the resource version of the list. Errors as of `readStream`.
 */
export async function listObjects(
  spec: WatchSpec,
  { unpaged, ...options }: ListOptions,
  take: (object: WatchedObject) => Promise<void> | void,
): Promise<string> {
  const breather = new Breather(options.clock);
  let page: JsonObject = {};
  do {
    const query = {
      ...selectorsOf(spec),
      limit: unpaged ? undefined : PAGE_SIZE,
      continue: textOf(page["continue"]) || undefined,
    };
    page = await readPage(spec, { ...options, query }, async (bytes) => {
      await take(wholeObject(JSON.parse(bytes.toString("utf8")), spec));
      await breather.pause();
    });
  } while (textOf(page["continue"]) !== "");
  return textOf(page["resourceVersion"]);
}

/**
 * The newest resource version of the server for the resource of `spec`; empty where it has none. Never an older one than
 * any that was seen before, unless the server was put back. Errors as of `readStream`.
 */
export async function newestVersion(spec: WatchSpec, options: Omit<ListOptions, "unpaged">): Promise<string> {
  // Without labels, so that the server need not search for the one object.
  const { labelSelector: _, ...anything } = spec;
  const query = { ...selectorsOf(anything), limit: 1 };
  const page = await readPage({ ...anything, metadataOnly: true }, { ...options, query }, async () => {});
  return textOf(page["resourceVersion"]);
}

/** Reads one page, hands its items to `take` as bytes, and returns the metadata of the list. */
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

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/**
 * Cuts a list answer (`{"metadata":{…},"items":[{…},…]}`) into its items while it arrives, so that no page, however
 * large, is parsed in one go. Relies on `items` being the only array directly inside a list.
 */
export class ListSplitter {
  readonly #item = new Pieces();
  readonly #envelope = new Pieces();
  #depth = 0;
  #inString = false;
  #skip = 0;
  #inItems = false;

  /** The items that `chunk` completes, as bytes. They may share memory with it. */
  push(chunk: Uint8Array): Buffer[] {
    const items: Buffer[] = [];
    let at = this.#skip;
    let from = 0;
    this.#skip = 0;
    while (at < chunk.length) {
      if (this.#inString) {
        at = this.#pastString(chunk, at);
        continue;
      }
      const byte = chunk[at];
      at += 1;
      if (byte === QUOTE) this.#inString = true;
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) from = this.#opened(chunk, from, at);
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET)
        from = this.#closed(chunk, from, { at, items });
    }
    this.#skip = at - chunk.length;
    this.#keep(chunk.subarray(from));
    return items;
  }

  /** The list without its items. Throws a SyntaxError when the answer is not complete. */
  end(): JsonObject {
    const list = JSON.parse(this.#envelope.take().toString("utf8")) as unknown;
    if (!isJsonObject(list)) throw new SyntaxError("the answer is not a list");
    return list;
  }

  #pastString(chunk: Uint8Array, start: number): number {
    let at = start;
    while (at < chunk.length) {
      const byte = chunk[at];
      // The escaped byte may lie in the next chunk: `at` then points past this one's end.
      at += byte === BACKSLASH ? 2 : 1;
      if (byte === QUOTE) {
        this.#inString = false;
        return at;
      }
    }
    return at;
  }

  // `at` is just behind the bracket. Returns where the bytes begin that nobody has taken yet.
  #opened(chunk: Uint8Array, from: number, at: number): number {
    this.#depth += 1;
    if (this.#depth === 2 && chunk[at - 1] === OPEN_BRACKET) {
      this.#envelope.add(chunk.subarray(from, at));
      this.#inItems = true;
      return at;
    }
    // An item begins: commas and white space before it are dropped.
    return this.#inItems && this.#depth === 3 ? at - 1 : from;
  }

  #closed(chunk: Uint8Array, from: number, end: { at: number; items: Buffer[] }): number {
    this.#depth -= 1;
    if (this.#inItems && this.#depth === 2) {
      this.#item.add(chunk.subarray(from, end.at));
      end.items.push(this.#item.take());
      return end.at;
    }
    if (this.#inItems && this.#depth === 1) {
      this.#inItems = false;
      return end.at - 1;
    }
    return from;
  }

  #keep(rest: Uint8Array): void {
    if (!this.#inItems) this.#envelope.add(rest);
    else if (this.#depth > 2) this.#item.add(rest);
  }
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
 * Sends `request` and hands each chunk to `take` in order; resolves at a clean end.
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
  const dog = watchDog(options, () =>
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
        dog.fed();
        const next = await orAborted(reader.next(), attempt.signal);
        if (next.done === true) return;
        dog.rest();
        await take(next.value);
      }
    } finally {
      attempt.abort(new ConnectionError("ECLOSED", "the reader has left"));
      reader.return?.().catch(() => {});
    }
  } finally {
    dog.end();
    options.signal.removeEventListener("abort", stop);
  }
}

interface Dog {
  fed(): void;
  rest(): void;
  end(): void;
}

// One long timer that checks when the last chunk came, instead of a timer for each. Time spent on a chunk does not
// count as silence.
function watchDog(options: ReadOptions, bark: () => void): Dog {
  const { clock, silenceMs } = options;
  let last = clock.monotonic();
  let working = false;
  let timer: Timer;
  const look = (): void => {
    const idle = working ? 0 : clock.monotonic() - last;
    if (idle >= silenceMs) return bark();
    timer = clock.setTimer(silenceMs - idle, look);
  };
  timer = clock.setTimer(silenceMs, look);
  return {
    fed: () => {
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

/** Lets other work run whenever this loop has taken 15 ms. */
export class Breather {
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
    await breathe();
    this.#since = this.#clock.monotonic();
  }
}

/** A piece that may arrive in several chunks; its bytes are joined once, at its end. */
export class Pieces {
  #parts: Uint8Array[] = [];

  add(part: Uint8Array): void {
    if (part.length > 0) this.#parts.push(part);
  }

  /** Everything added since the last call. */
  take(): Buffer {
    const [first] = this.#parts;
    const whole =
      this.#parts.length === 1 && first !== undefined
        ? Buffer.from(first.buffer, first.byteOffset, first.byteLength)
        : Buffer.concat(this.#parts);
    this.#parts = [];
    return whole;
  }
}
