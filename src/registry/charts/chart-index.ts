/** Fetches the `index.yaml` of a chart repository: streamed, bounded, and only if it has changed. */

import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";

import { oneLine } from "../../lib/index.ts";
import { getFirstHeader, type Answer, type RegistryRequest, type RegistryClient } from "../http/client.ts";
import { RegistryError } from "../http/errors.ts";
import { IndexScanner, type ChartVersions } from "./index-scan.ts";

/** What the last fetch read of an index, so that an unchanged index need not be transferred again. */
export interface KnownIndex {
  /** Headers of a conditional request: the server answers 304 without content unless the index has changed. */
  readonly conditions: Readonly<Record<string, string>>;
  readonly versions: ChartVersions;
}

/** Longest time to read one index; a slow server could block a check for hours. */
const MAX_READ_MS = 300_000;

/**
 * Fetches an index and reads the versions of the requested charts. Returns `known` if the server answers that the
 * index is unchanged. Throws RegistryError.
 */
export async function fetchIndex(
  client: RegistryClient,
  { base, charts }: { readonly base: URL; readonly charts: Iterable<string> },
  known: KnownIndex | undefined,
): Promise<KnownIndex> {
  const headers = { "accept-encoding": "gzip", ...known?.conditions };
  const request: RegistryRequest = { method: "GET", path: new URL("index.yaml", base), scope: "", headers };
  const answer = await client.send(request);
  if (answer.status === 304 && known !== undefined) {
    await answer.body.dump();
    return known;
  }
  if (answer.status !== 200) throw await client.toStatusError(request, answer);
  const scan = new IndexScanner(charts);
  try {
    await scanBody(answer, scan);
    return { conditions: buildConditions(answer), versions: scan.finish() };
  } catch (error) {
    const text = `the index.yaml of ${base.host} cannot be read: ${oneLine(error)}`;
    throw new RegistryError(text, undefined, { cause: error });
  }
}

/**
 * Feeds the body of an answer into the scanner while it arrives: an index can have many megabytes. Throws Error if
 * the body cannot be read in time.
 */
async function scanBody({ headers, body }: Answer, scan: IndexScanner): Promise<void> {
  const deadline = performance.now() + MAX_READ_MS;
  const isCompressed = getFirstHeader(headers, "content-encoding") === "gzip";
  const decoder = new TextDecoder();
  const consume = async (chunks: AsyncIterable<Buffer>): Promise<void> => {
    for await (const chunk of chunks) {
      if (performance.now() > deadline)
        throw new Error(`it takes longer than ${MAX_READ_MS / 60_000} minutes`);
      scan.addText(decoder.decode(chunk, { stream: true }));
    }
  };
  if (isCompressed) await pipeline(body, createGunzip(), consume);
  else await pipeline(body, consume);
}

/** The headers that make the next request conditional: by ETag, else by date. Empty if the server sent neither. */
function buildConditions({ headers }: Answer): KnownIndex["conditions"] {
  const etag = getFirstHeader(headers, "etag");
  const modified = getFirstHeader(headers, "last-modified");
  if (etag !== undefined) return { "if-none-match": etag };
  return modified === undefined ? {} : { "if-modified-since": modified };
}
