/** Lists objects, and splits the bytes of lists into items while they arrive. */

import { asString, isJsonObject, readJson, type JsonObject } from "../../base/model/index.ts";
import { ConnectionError, OversizeError, statusToApiError } from "../api-errors.ts";
import { formatAcceptHeader, type ApiRequest } from "../client/request.ts";
import { pathOf } from "../resources.ts";
import { ChunkBuffer, TimeSlice, completeObject, readStream, type StreamOptions } from "./stream.ts";
import { toSelectorQuery, type WatchedObject, type WatchSpec } from "./watch-spec.ts";

interface ListOptions extends Omit<StreamOptions, "silenceMs"> {
  /** Request everything in one page, for servers that expire a list before the next page is requested. */
  readonly unpaged: boolean;
  /** List the objects as they were at this version; the newest state by default. */
  readonly resourceVersion?: string;
}

const PAGE_SIZE = 500;
/** A list is given up when no byte arrives for this long. */
const LIST_SILENCE_MS = 60_000;
/** The most bytes of one answer: a page of objects with the largest size that etcd stores by default has 750 MiB. */
const MAX_PAGE_BYTES = 1024 * 1024 * 1024;
/** The most objects and pages of one list, several times the number of objects in the largest clusters. */
const MAX_LISTED = 2_000_000;

/**
 * Lists everything that `spec` selects, page by page or (`unpaged`) at once, and passes each object to `onObject` as it arrives; yields to
 * other work every few objects. Returns the resource version of the list. Errors as of `readStream`.
 */
export async function listObjects(
  spec: WatchSpec,
  { unpaged, resourceVersion, ...options }: ListOptions,
  onObject: (object: WatchedObject) => Promise<void> | void,
): Promise<string> {
  const timeSlice = new TimeSlice(options.clock);
  let page: JsonObject = {};
  let listed = 0;
  const countListed = (): void => {
    listed += 1;
    if (listed > MAX_LISTED) throw new OversizeError(`the list has more than ${MAX_LISTED} objects`);
  };
  do {
    countListed();
    const token = asString(page["continue"]) || undefined;
    // The token of a later page contains the version.
    const version = token === undefined &&
      resourceVersion !== undefined && {
        resourceVersion,
        resourceVersionMatch: "Exact",
      };
    const limit = unpaged ? undefined : PAGE_SIZE;
    const query = { ...toSelectorQuery(spec), limit, continue: token, ...version };
    page = await readPage(spec, { ...options, query }, async (bytes) => {
      countListed();
      await onObject(completeObject(readJson(bytes.toString("utf8")), spec));
      await timeSlice.yieldWhenUsedUp();
    });
  } while (asString(page["continue"]));
  return asString(page["resourceVersion"]) ?? "";
}

/**
 * Requests the server's newest resource version for the resource of `spec`; empty if it has none. Never older than a version seen before,
 * because the list is a quorum read, unless the server's etcd was restored. Errors as of `readStream`.
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
  let size = 0;
  await readStream(request, { ...options, silenceMs: LIST_SILENCE_MS }, async (chunk) => {
    size += chunk.length;
    if (size > MAX_PAGE_BYTES) throw new OversizeError("the server sent a list that is larger than 1 GiB");
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
  // Any other object, of a program in between, would read as a list without items.
  if (asString(list["kind"])?.endsWith("List") !== true && list["items"] === undefined)
    throw new ConnectionError("ENOLIST", "the answer is no list; a proxy may be in between");
  return isJsonObject(list["metadata"]) ? list["metadata"] : {};
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/**
 * Splits a list answer (`{"metadata":{…},"items":[{…},…]}`) into its items while it arrives, because parsing a large page at once would block
 * the event loop. Counts open brackets instead of parsing: depth 1 is inside the list, 2 inside `items`, 3 inside an item. Relies on `items`
 * being the only array directly inside a list. The rest of the list is its envelope.
 */
export class ListSplitter {
  readonly #item = new ChunkBuffer();
  readonly #envelope = new ChunkBuffer();
  #depth = 0;
  #inString = false;
  /** Bytes of the next chunk to skip: the byte after a backslash. */
  #skipNext = 0;
  #inItems = false;

  /** Returns the items that `chunk` completes, as bytes. They may share memory with it. */
  push(chunk: Uint8Array): Buffer[] {
    const items: Buffer[] = [];
    let position = this.#skipNext;
    // The first byte that is neither stored nor returned yet.
    let unstoredFrom = 0;
    this.#skipNext = 0;
    while (position < chunk.length) {
      if (this.#inString) {
        position = this.#skipString(chunk, position);
        continue;
      }
      const byte = chunk[position];
      position += 1;
      if (byte === QUOTE) this.#inString = true;
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET)
        unstoredFrom = this.#handleOpeningBracket(chunk, unstoredFrom, position);
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET)
        unstoredFrom = this.#handleClosingBracket(chunk, unstoredFrom, { position, items });
    }
    this.#skipNext = position - chunk.length;
    this.#bufferRest(chunk.subarray(unstoredFrom));
    return items;
  }

  /** Call it after the last chunk: returns the list without its items. Throws a SyntaxError when the answer is not complete. */
  finish(): JsonObject {
    const list = JSON.parse(this.#envelope.drain().toString("utf8")) as unknown;
    if (!isJsonObject(list)) throw new SyntaxError("the answer is not a list");
    return list;
  }

  /** Returns the position behind the closing quote; the chunk's length or more if the string goes on in the next chunk. */
  #skipString(chunk: Uint8Array, start: number): number {
    let position = start;
    while (position < chunk.length) {
      const byte = chunk[position];
      // The escaped byte may lie in the next chunk: `position` then points past this one's end.
      position += byte === BACKSLASH ? 2 : 1;
      if (byte === QUOTE) {
        this.#inString = false;
        return position;
      }
    }
    return position;
  }

  /**
   * Handles a bracket that opens `items` or an item. `position` is the index after the bracket, `unstoredFrom` the first byte that is not stored
   * yet. Returns the new `unstoredFrom`.
   */
  #handleOpeningBracket(chunk: Uint8Array, unstoredFrom: number, position: number): number {
    this.#depth += 1;
    if (this.#depth === 2 && chunk[position - 1] === OPEN_BRACKET) {
      this.#envelope.add(chunk.subarray(unstoredFrom, position));
      this.#inItems = true;
      return position;
    }
    // An item begins: commas and white space before it are dropped.
    return this.#inItems && this.#depth === 3 ? position - 1 : unstoredFrom;
  }

  /** Handles a bracket that closes an item, which it adds to `output.items`, or `items`. Returns the new `unstoredFrom`, as `#handleOpeningBracket` does. */
  #handleClosingBracket(
    chunk: Uint8Array,
    unstoredFrom: number,
    output: { position: number; items: Buffer[] },
  ): number {
    this.#depth -= 1;
    if (this.#inItems && this.#depth === 2) {
      this.#item.add(chunk.subarray(unstoredFrom, output.position));
      output.items.push(this.#item.drain());
      return output.position;
    }
    if (this.#inItems && this.#depth === 1) {
      this.#inItems = false;
      // The envelope goes on with this bracket.
      return output.position - 1;
    }
    return unstoredFrom;
  }

  /** Stores the end of a chunk until the next one: it belongs to an incomplete item or to the rest of the list. */
  #bufferRest(rest: Uint8Array): void {
    if (!this.#inItems) this.#envelope.add(rest);
    else if (this.#depth > 2) this.#item.add(rest);
  }
}
