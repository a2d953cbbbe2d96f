/** Writes bodies of answers to files. */

import { createHash } from "node:crypto";
import { open } from "node:fs/promises";

/** Digest and size of a body that was read completely. */
interface SavedBody {
  readonly digest: string;
  /** Bytes. */
  readonly size: number;
}

/**
 * Reads a body while it arrives, and computes its digest and size. Writes it to a new file, unless `file` is
 * undefined. Returns undefined if the body is longer than `limit`; the file is then incomplete. Throws errors of the
 * connection and of the file.
 */
export async function saveBody(
  body: AsyncIterable<Buffer>,
  file: string | undefined,
  limit: number,
): Promise<SavedBody | undefined> {
  const hash = createHash("sha256");
  let size = 0;
  await using handle = file === undefined ? undefined : await open(file, "wx", 0o600);
  for await (const chunk of body) {
    size += chunk.length;
    if (size > limit) return undefined;
    hash.update(chunk);
    // A single write may be a short one, which a full disk makes without an error.
    await handle?.writeFile(chunk);
  }
  await handle?.sync();
  return { digest: `sha256:${hash.digest("hex")}`, size };
}
