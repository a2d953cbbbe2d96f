/** Fetches the `index.yaml` of a chart repository: streamed, bounded, and only if it has changed. */

import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";

import { oneLine } from "../../lib/index.ts";
import { headerOf, type Answer, type RegistryRequest, type RegistryClient } from "../http/client.ts";
import { RegistryError } from "../http/errors.ts";
import { IndexScan, type ChartVersions } from "./index-scan.ts";

/** What was read of an index, so that it need not be sent again. */
export interface KnownIndex {
  /** Headers of a conditional request: it is answered in full only if the index changed. */
  readonly conditions: Readonly<Record<string, string>>;
  readonly versions: ChartVersions;
}

/** Longest time for one index. */
const LONGEST_MS = 300_000;

/** Reads some charts of an index. Returns `known` if the server says that nothing has changed. Throws RegistryError. */
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
  if (answer.status !== 200) throw await client.failure(request, answer);
  const scan = new IndexScan(charts);
  try {
    await read(answer, scan);
    return { conditions: conditionsOf(answer), versions: scan.end() };
  } catch (error) {
    const text = `the index.yaml of ${base.host} cannot be read: ${oneLine(error)}`;
    throw new RegistryError(text, undefined, { cause: error });
  }
}

async function read({ headers, body }: Answer, scan: IndexScan): Promise<void> {
  const endsAt = performance.now() + LONGEST_MS;
  const isPacked = headerOf(headers, "content-encoding") === "gzip";
  const decoder = new TextDecoder();
  const consume = async (chunks: AsyncIterable<Buffer>): Promise<void> => {
    for await (const chunk of chunks) {
      if (performance.now() > endsAt) throw new Error(`it takes longer than ${LONGEST_MS / 60_000} minutes`);
      scan.add(decoder.decode(chunk, { stream: true }));
    }
  };
  if (isPacked) await pipeline(body, createGunzip(), consume);
  else await pipeline(body, consume);
}

function conditionsOf({ headers }: Answer): KnownIndex["conditions"] {
  const tag = headerOf(headers, "etag");
  const modified = headerOf(headers, "last-modified");
  if (tag !== undefined) return { "if-none-match": tag };
  return modified === undefined ? {} : { "if-modified-since": modified };
}
