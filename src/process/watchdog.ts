/** Ends the process when the event loop does not answer in time. */

import { nativeTimers } from "./native-timer.ts";

/** Without an init above it a process cannot be killed from inside: it has to exit by itself, after its children. */
const LATER_MS = 400;

/** Ends this process and its children unless it is held off in time. */
export interface Watchdog {
  /** Ends them after `ms`, with these last words on stdout; replaces what was set before. */
  biteAfter(ms: number, lastWords: string): void;
  /** Switches the watchdog off until it is set again. */
  calm(): void;
}

/**
 * A watchdog outside the event loop, which may be blocked; it costs no more than a timer of the system. It sends
 * SIGKILL to the process group of each child, and then ends this process. Undefined where there is no such timer
 * (outside Linux).
 */
export function watchdog(): Watchdog | undefined {
  const timers = nativeTimers();
  if (timers === undefined) return undefined;
  const bite = timers.shell();
  const end = process.pid === 1 ? timers.exit() : undefined;
  return {
    biteAfter(ms, lastWords) {
      bite.unset();
      bite.setText(script(process.pid, lastWords));
      bite.set(ms);
      end?.set(ms + LATER_MS);
    },
    calm() {
      bite.unset();
      end?.unset();
    },
  };
}

/** Children are found by their parent, however they were started. */
function script(pid: number, lastWords: string): string {
  return `printf '%s\\n' '${lastWords.replaceAll("'", `'\\''`)}'
if [ -r /proc/${pid}/task/${pid}/children ]; then children=$(cat /proc/${pid}/task/*/children)
else children=$(grep -l '^PPid:[[:space:]]*${pid}$' /proc/[0-9]*/status 2>/dev/null | cut -d / -f 3); fi
for child in $children; do kill -9 "-$child"; done
kill -9 ${pid}`;
}
