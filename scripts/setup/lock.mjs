// One set-up at a time per user: a file that holds the owner's process id.
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Waits until nobody else holds `path`, then holds it until the returned function is called or the process ends.
 * A holder that no longer lives (killed, machine restarted) is pushed aside. `onWait(pid)` is called once when it has to wait.
 */
export async function lock(path, onWait = () => {}) {
  mkdirSync(dirname(path), { recursive: true });
  let reported = false;
  while (!take(path)) {
    const owner = ownerOf(path);
    if (owner !== undefined && !alive(owner)) {
      pushAside(path, owner);
      continue;
    }
    if (owner !== undefined && !reported) onWait(owner);
    reported = true;
    await new Promise((done) => setTimeout(done, 200));
  }
  const release = () => ownerOf(path) === process.pid && rmSync(path, { force: true });
  process.once("exit", release);
  return () => {
    process.off("exit", release);
    release();
  };
}

/** Linked into place complete, so that nobody ever reads a lock without its owner. */
function take(path) {
  const own = `${path}.${process.pid}`;
  writeFileSync(own, `${process.pid}\n`);
  try {
    linkSync(own, path);
    return true;
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
    return false;
  } finally {
    rmSync(own, { force: true });
  }
}

function ownerOf(path) {
  try {
    return Number(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}

/** Whether a process of this machine runs. */
export function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** Between our look and the rename someone may have done the same and taken the lock: then theirs goes back. */
function pushAside(path, deadOwner) {
  const aside = `${path}.stale.${process.pid}`;
  try {
    renameSync(path, aside);
    if (ownerOf(aside) !== deadOwner) linkSync(aside, path);
  } catch (error) {
    if (error.code !== "ENOENT" && error.code !== "EEXIST") throw error;
  }
  rmSync(aside, { force: true });
}
