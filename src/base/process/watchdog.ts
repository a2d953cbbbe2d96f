/**
 * Ends this process when its event loop does not move a deadline in time. A supervisor process, a shell script, reads deadlines from its stdin: lines
 * of seconds and a text. When a deadline is over before the next line comes, the supervisor prints the text and kills this process.
 */

import { spawn } from "node:child_process";
import type { Writable } from "node:stream";

import { findProgram } from "./child.ts";

/** bash, since `read -t` is not in every sh. */
const SHELL = "bash";
const SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin";
/** A deadline in seconds that is never reached. */
const NEVER = 2_147_483;

/**
 * Reads lines `SECONDS FINAL STATUS`, each of which replaces the previous one. When no line arrives in time (`read` then ends
 * with a code above 128), it prints the final status and kills the children of process $1 with their process groups, then the
 * process. It finds children by their parent pid. The end of the input means that the process has ended by itself.
 */
const SUPERVISOR = `
seconds=${NEVER}
while IFS= read -r -t "$seconds" line || ((code = $?, 0)); do seconds=\${line%% *} words=\${line#* }; done
((code > 128)) || exit 0
printf '%s\\n' "$words"
for child in $(grep -ls "^PPid:[[:space:]]*$1$" /proc/[0-9]*/status | cut -d / -f 3); do
  ((child == $$)) || kill -9 "-$child"
done
kill -9 "$1"`;

/** Kills this process and its children unless it is reset in time. */
export interface Watchdog {
  /** Sets the deadline to `ms` from now; `finalStatus` is printed on stdout when it expires. Replaces the previous one. */
  expireAfter(ms: number, finalStatus: string): void;
  /** Switches the watchdog off until the next deadline is set. */
  disarm(): void;
}

/**
 * Creates a watchdog in another process, because the event loop of this one may be blocked or frozen. If this process is PID 1, only its children are
 * killed: Linux ignores SIGKILL to PID 1 from inside its namespace. Undefined outside Linux and without bash.
 */
export function startWatchdog(): Watchdog | undefined {
  const shell = process.platform === "linux" ? findProgram(SHELL, SEARCH_PATH) : undefined;
  if (shell === undefined) return undefined;
  let input: Writable | undefined;
  return {
    expireAfter(ms, finalStatus) {
      if (input === undefined || input.destroyed) input = startSupervisor(shell);
      input.write(`${Math.max(ms / 1000, 0.001).toFixed(3)} ${finalStatus}\n`);
    },
    disarm() {
      // The line takes effect at once. The end of the input needs the event loop, which may be blocked.
      input?.end(`${NEVER}\n`);
      input = undefined;
    },
  };
}

/** Starts a supervisor of this process and returns its stdin. Neither keeps this process from exiting. */
function startSupervisor(shell: string): Writable {
  const child = spawn(shell, ["-c", SUPERVISOR, "addon-operator-watchdog", String(process.pid)], {
    stdio: ["pipe", "inherit", "ignore"],
    env: {},
    cwd: "/",
    detached: true,
  });
  // If it ends, the next deadline starts another one.
  child.on("error", () => child.stdin.destroy()).on("exit", () => child.stdin.destroy());
  child.stdin.on("error", () => {});
  child.unref();
  if ("unref" in child.stdin) (child.stdin as unknown as { unref(): void }).unref();
  return child.stdin;
}
