import { nativeTimers } from "./native-timer.ts";

/** A process without an init above it cannot be killed from inside: it has to end itself, after its children. */
const LATER_MS = 400;

/** Ends this process and its children when it is not held off in time. */
export interface Watchdog {
  /** Bites after `ms`, with these last words on stdout; what was said before is forgotten. */
  biteAfter(ms: number, lastWords: string): void;
  /** Never bites again, unless told. */
  calm(): void;
}

/**
 * A watchdog outside the event loop, which may be busy, and as cheap as a timer of the system. It bites with SIGKILL
 * for the process group of each child, and then for this process. Undefined where there is no such timer (beside Linux).
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

/** Children are told by their parent, wherever they come from; where the kernel keeps no list of them, all are asked. */
function script(pid: number, lastWords: string): string {
  return `printf '%s\\n' '${lastWords.replaceAll("'", `'\\''`)}'
if [ -r /proc/${pid}/task/${pid}/children ]; then children=$(cat /proc/${pid}/task/*/children)
else children=$(grep -l '^PPid:[[:space:]]*${pid}$' /proc/[0-9]*/status 2>/dev/null | cut -d / -f 3); fi
for child in $children; do kill -9 "-$child"; done
kill -9 ${pid}`;
}
