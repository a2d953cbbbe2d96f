/**
 * Temporary directories for a process of another user, and their removal. The directory and the names in it stay the operator's, so
 * that the other user cannot replace a file by a link; it owns the files, and `home` in it.
 */

import { constants } from "node:fs";
import { chmod, chown, mkdir, rmdir, open, readdir, rm, unlink } from "node:fs/promises";
import { join } from "node:path";

import { succeeds } from "../../index.ts";
import type { RunRequest, RunResult } from "../children.ts";

/** Starts processes. */
export interface ProcessRunner {
  run(request: RunRequest): Promise<RunResult>;
}

/** Another user, and what starts its processes. */
export interface OtherUser {
  readonly uid: number;
  readonly children: ProcessRunner;
}

/** Other users may open files whose names they know, but may not list names. */
const PASSABLE = 0o711;
const PRIVATE = 0o700;
const REMOVAL_MS = 30_000;
const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The directory in a scratch directory in which the other user may create files. */
export function homePathOf(dir: string): string {
  return join(dir, "home");
}

/** Lets another user open files in `dir`, which is below `root`, without listing or changing the directories, and creates the user's home there. */
export async function giveUserAccess({ uid }: OtherUser, root: string, dir: string): Promise<void> {
  await chmod(root, PASSABLE);
  await chmod(dir, PASSABLE);
  await mkdir(homePathOf(dir), PRIVATE);
  await chown(homePathOf(dir), uid, uid);
}

/** Removes the home by a process of the other user: if the operator removed it, a link in it could lead anywhere. Never throws. */
export async function removeHomeDir({ uid, children }: OtherUser, dir: string): Promise<void> {
  const home = homePathOf(dir);
  const isRemoved = await succeeds(rmdir(home));
  if (isRemoved) return;
  const env = { PATH: SYSTEM_PATH };
  await children.run({ file: "rm", args: ["-rf", "--", home], cwd: "/", env, uid, timeoutMs: REMOVAL_MS });
  await rmdir(home).catch(() => {});
}

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
