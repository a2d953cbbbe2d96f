// Where the tests keep their files: in memory where the machine has room, which saves a third of the system's processor time.
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { alive } from "../setup/lock.mjs";

const MEMORY = "/dev/shm";
/** More than all files of a run together. */
const LEAST_BYTES = 6 * 1024 ** 3;
const PREFIX = "tests-";

/** A new directory, in which all users may create files. `TMPDIR` decides where it is if it is set. */
export function makeTempDir(env = process.env) {
  if (env.TMPDIR === undefined) removeLeftovers(MEMORY);
  const dir = mkdtempSync(join(env.TMPDIR === undefined ? place() : env.TMPDIR, `${PREFIX}${process.pid}-`));
  // Some tests run programs as another user.
  chmodSync(dir, 0o1777);
  return dir;
}

export function removeTempDir(dir) {
  rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
}

function place() {
  return isUsable(MEMORY) ? MEMORY : tmpdir();
}

/** Whether the directory has room, and programs in it can be executed: containers often mount it without that. */
function isUsable(dir) {
  try {
    const { bavail, bsize } = statfsSync(dir);
    if (bavail * bsize < LEAST_BYTES) return false;
    const probe = mkdtempSync(join(dir, `${PREFIX}${process.pid}-`));
    const program = join(probe, "program");
    writeFileSync(program, "#!/bin/sh\n", { mode: 0o755 });
    const { status } = spawnSync(program);
    removeTempDir(probe);
    return status === 0;
  } catch {
    return false;
  }
}

/** A run that was killed has left its files, which occupy memory. */
function removeLeftovers(dir) {
  try {
    for (const name of readdirSync(dir)) {
      const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1];
      if (pid !== undefined && !alive(Number(pid))) removeTempDir(join(dir, name));
    }
  } catch {
    // It does not exist, or the files are those of another user.
  }
}
