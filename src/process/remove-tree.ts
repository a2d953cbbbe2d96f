/** Removes directories in which another user may exchange names meanwhile. */

import { constants } from "node:fs";
import { open, readdir, rm, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";

/** Deeper directories stay: each level keeps a file open. */
const DEEPEST = 100;

/**
 * Removes a directory with its content and follows no link, also if another user puts one in place of a directory meanwhile:
 * `rm` of Node would then remove what the link leads to. Ignores a missing directory. Throws the file system's error.
 */
export async function removeTree(dir: string, depth = 0): Promise<void> {
  if (process.platform !== "linux") return rm(dir, { recursive: true, force: true });
  if (depth > DEEPEST) throw new Error(`directories lie more than ${DEEPEST} deep`);
  const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants;
  const handle = await open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).catch(ifMissing);
  if (handle === undefined) return;
  try {
    // The directory that was opened, whatever its name leads to by now.
    const opened = `/proc/self/fd/${handle.fd}`;
    for (const name of await readdir(opened)) await removeEntry(join(opened, name), depth);
  } finally {
    await handle.close();
  }
  await rmdir(dir).catch(ifMissing);
}

async function removeEntry(path: string, depth: number): Promise<void> {
  try {
    await unlink(path).catch(ifMissing);
  } catch (error) {
    // Linux reports EISDIR for a directory, POSIX EPERM.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EISDIR" && code !== "EPERM") throw error;
    await removeTree(path, depth + 1);
  }
}

function ifMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
  return undefined;
}
