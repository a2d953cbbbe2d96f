/** Lists everything that a watch selects. */

import type { JsonObject } from "../../model/index.ts";
import { isJsonObject } from "../../model/index.ts";
import { ApiError, ConnectionError } from "../api-errors.ts";
import { ListSplitter } from "./frames.ts";
import { PAGE_SIZE, acceptOf } from "../list.ts";
import { pathOf } from "../discovery/resources.ts";
import type { ReadOptions } from "./watch-stream.ts";
import { Breather, readStream } from "./watch-stream.ts";
import type { WatchedObject, WatchSpec } from "./watch-spec.ts";
import { parseObject } from "./watch-spec.ts";

/** How to list for a watch. */
export interface ListOptions extends ReadOptions {
  /** Ask for everything in one answer: for servers that expire a list before the next page is asked for. */
  readonly unpaged?: boolean;
}

/**
 * Lists everything that `spec` selects, page by page, and hands each object to `take` as it arrives; other work
 * gets its turn every few objects. Returns the resource version of the list. Errors as of `readStream`.
 */
export async function listForWatch(
  spec: WatchSpec,
  options: ListOptions,
  take: (object: WatchedObject) => Promise<void> | void,
): Promise<string> {
  const breather = new Breather(options.clock);
  const each = async (bytes: Buffer): Promise<void> => {
    await take(parseObject(bytes, spec));
    await breather.pause();
  };
  let version = "";
  let next = "";
  do {
    const page = await readPage(spec, { ...options, next, each });
    version = textOf(page["resourceVersion"]) ?? "";
    next = textOf(page["continue"]) ?? "";
  } while (next !== "");
  return version;
}

interface PageOptions extends ListOptions {
  readonly next: string;
  readonly each: (bytes: Buffer) => Promise<void>;
}

async function readPage(spec: WatchSpec, options: PageOptions): Promise<JsonObject> {
  const splitter = new ListSplitter();
  const limit = options.unpaged === true ? undefined : PAGE_SIZE;
  const query = { ...selectorsOf(spec), limit, continue: options.next || undefined };
  await readStream(
    { path: pathOf(spec.resource, spec), query, accept: acceptOf(spec, "List") },
    options,
    async (chunk) => {
      for (const bytes of splitter.push(chunk)) await options.each(bytes);
    },
  );
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

/** The selectors of `spec` as query parameters. */
export function selectorsOf(spec: WatchSpec): { labelSelector?: string; fieldSelector?: string } {
  const { labelSelector, fieldSelector } = spec;
  return {
    ...(labelSelector === undefined || labelSelector === "" ? {} : { labelSelector }),
    ...(fieldSelector === undefined || fieldSelector === "" ? {} : { fieldSelector }),
  };
}

/** The error a Status object describes (also the object of an ERROR frame). */
export function statusError(status: JsonObject): ApiError {
  const details = isJsonObject(status["details"]) ? status["details"] : undefined;
  const seconds = Number(details?.["retryAfterSeconds"] ?? 0);
  const code = Number(status["code"] ?? 500);
  return new ApiError({
    status: code,
    reason: textOf(status["reason"]) ?? String(code),
    message: textOf(status["message"]) ?? `the server answered ${code}`,
    ...(seconds > 0 ? { retryAfterMs: seconds * 1000 } : {}),
    details,
  });
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
