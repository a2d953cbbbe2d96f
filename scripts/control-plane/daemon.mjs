// A background process of the control plane: its log, its end, and the promise that it never outlives us.
import { closeSync, openSync, readFileSync } from "node:fs";
import { execa } from "execa";

/** In a session of its own, and not ended by execa when we end. */
const APART = { detached: true, cleanup: false, reject: false, forceKillAfterDelay: 10_000 };

/** Garbage is collected less often: what lives for some minutes is to take less of a processor rather than less memory. */
const SPARING = { GOGC: "400", GOMEMLIMIT: "1GiB" };

/**
 * Starts `file` in a session of its own (a Ctrl-C meant for us must not end etcd before the API server).
 * A watcher kills it should we die without stopping it, even by SIGKILL.
 */
export function startDaemon({ name, file, args, cwd, log }) {
  const out = openSync(log, "a");
  const child = execa(file, args, { cwd, env: SPARING, ...APART, stdio: ["ignore", out, out] });
  closeSync(out);
  const watcher = watch(child.pid);
  const ended = child.then(({ shortMessage }) => shortMessage ?? "ended");
  let over;
  void ended.then((how) => {
    over = how;
    watcher?.kill("SIGKILL");
  });
  return {
    name,
    pid: child.pid,
    ended,
    /** Throws an error with the end of the log when the process has ended. */
    check() {
      if (over !== undefined) throw new Error(`${name}: ${over}:\n${tail(log)}`);
    },
    /** Sends the signal, SIGKILL after 10 s, and waits for the end. */
    async stop(signal = "SIGTERM") {
      child.kill(signal);
      await ended;
    },
  };
}

/**
 * Ends `pid` by SIGKILL when this process has ended for any reason; returns the watching process.
 * The watcher's standard input is a pipe that only we hold: it ends when we do.
 */
export function watch(pid) {
  if (pid === undefined) return undefined;
  const script = 'cat >/dev/null; kill -9 "$1" 2>/dev/null';
  const watcher = execa("sh", ["-c", script, "sh", String(pid)], {
    ...APART,
    stdio: ["pipe", "ignore", "ignore"],
  });
  watcher.nodeChildProcess.unref();
  watcher.stdin.unref();
  return watcher;
}

function tail(log) {
  return readFileSync(log, "utf8").trim().split("\n").slice(-8).join("\n");
}
