/** Reads streams of untrusted length. */

/**
 * Reads all bytes of a stream into memory. Returns undefined and closes the stream as soon as there are more than `limit`, so that
 * an endless stream cannot exhaust the memory. Throws errors of the stream.
 */
export async function readAtMost(
  stream: AsyncIterable<Uint8Array>,
  limit: number,
): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size > limit) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
