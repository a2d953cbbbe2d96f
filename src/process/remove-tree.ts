/** Removes directories in which another user may exchange names meanwhile. */

import { constants } from "node:fs";
import { open, readdir, rm, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";

/** Deeper directories are not removed: each level keeps a file open. */
const MAX_DEPTH = 100;

/**
 * Removes a directory with its content and follows no link, also if another user puts one in place of a directory meanwhile:
 * `rm` of Node would then remove what the link leads to. Ignores a missing directory. Throws the file system's error.
 */
export async function removeTree(dir: string, depth = 0): Promise<void> {
  if (process.platform !== "linux") return rm(dir, { recursive: true, force: true });
  if (depth > MAX_DEPTH) throw new Error(`directories lie more than ${MAX_DEPTH} deep`);
  const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants;
  const handle = await open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).catch(ignoreMissing);
  if (handle === undefined) return;
  try {
    // This path leads to the opened directory, even if its name has been replaced by a link meanwhile.
    const openedPath = `/proc/self/fd/${handle.fd}`;
    for (const name of await readdir(openedPath)) await removeEntry(join(openedPath, name), depth);
  } finally {
    await handle.close();
  }
  await rmdir(dir).catch(ignoreMissing);
}

/** Removes a file, a link or a directory tree. */
async function removeEntry(path: string, depth: number): Promise<void> {
  try {
    await unlink(path).catch(ignoreMissing);
  } catch (error) {
    // Linux reports EISDIR for a directory, POSIX EPERM.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EISDIR" && code !== "EPERM") throw error;
    await removeTree(path, depth + 1);
  }
}

/** Handles a rejection: a missing file counts as removed; other errors are thrown again. */
function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
  return undefined;
}
