// A background process of the control plane: its log, its end, and the promise that it never outlives us.
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";

/**
 * Starts `file` in a session of its own (a Ctrl-C meant for us must not end etcd before the API server).
 * A watcher kills it should we die without stopping it, even by SIGKILL.
 */
export function startDaemon({ name, file, args, cwd, log }) {
  const out = openSync(log, "a");
  const child = spawn(file, args, { cwd, detached: true, stdio: ["ignore", out, out] });
  closeSync(out);
  const watcher = watch(child.pid);
  const ended = new Promise((done) => {
    child.once("error", (error) => done(error.message));
    child.once("exit", (code, signal) => done(`ended with ${signal ?? code}`));
  });
  let over;
  void ended.then((how) => {
    over = how;
    watcher?.kill("SIGKILL");
  });
  return {
    name,
    pid: child.pid,
    ended,
    /** Throws with the end of the log when the process is gone. */
    check() {
      if (over !== undefined) throw new Error(`${name} ${over}:\n${tail(log)}`);
    },
    /** Sends the signal, SIGKILL after 10 s, and waits for the end. */
    async stop(signal = "SIGTERM") {
      child.kill(signal);
      const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
      await ended;
      clearTimeout(timer);
    },
  };
}

/**
 * Ends `pid` by SIGKILL when this process is gone, however it went; returns the watching process.
 * The watcher's standard input is a pipe that only we hold: it ends when we do.
 */
export function watch(pid) {
  if (pid === undefined) return undefined;
  const script = 'cat >/dev/null; kill -9 "$1" 2>/dev/null';
  const watcher = spawn("sh", ["-c", script, "sh", String(pid)], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  watcher.unref();
  watcher.stdin.unref?.();
  watcher.stdin.on("error", () => {});
  return watcher;
}

function tail(log) {
  return readFileSync(log, "utf8").trim().split("\n").slice(-8).join("\n");
}
