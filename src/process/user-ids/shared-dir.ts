/**
 * Temporary directories for a process of another user. The directory and the names in it stay the operator's, so that the
 * other user cannot replace a file by a link; it owns the files, and `home` in it.
 */

import { chmod, chown, mkdir, rmdir } from "node:fs/promises";
import { join } from "node:path";

import type { RunRequest, RunResult } from "../run-process.ts";

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

/** Lets another user open files in `dir`, which is below `root`, and creates its home there. */
export async function giveUserAccess({ uid }: OtherUser, root: string, dir: string): Promise<void> {
  await chmod(root, PASSABLE);
  await chmod(dir, PASSABLE);
  await mkdir(homePathOf(dir), PRIVATE);
  await chown(homePathOf(dir), uid, uid);
}

/** Removes the home by a process of the other user: if the operator removed it, a link in it could lead anywhere. Never throws. */
export async function removeHomeDir({ uid, children }: OtherUser, dir: string): Promise<void> {
  const home = homePathOf(dir);
  const isRemoved = await rmdir(home).then(
    () => true,
    () => false,
  );
  if (isRemoved) return;
  const env = { PATH: SYSTEM_PATH };
  await children.run({ file: "rm", args: ["-rf", "--", home], cwd: "/", env, uid, timeoutMs: REMOVAL_MS });
  await rmdir(home).catch(() => {});
}
