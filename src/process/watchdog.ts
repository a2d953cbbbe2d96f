/** Ends the process when the event loop does not answer in time, by timers of the C library. */

import { createRequire } from "node:module";

import type koffiType from "koffi";

import { STRUCT_BYTES } from "./libc.ts";

/** Without an init above it a process cannot be killed from inside: it has to exit by itself, after its children. */
const LATER_MS = 400;
/** Linux values; the same in glibc and musl on the architectures we run on. */
const CLOCK_BOOTTIME = 7;
const SIGEV_THREAD = 2;
const F_SETFD = 2;
const STDOUT = 1;
/** The longest command, including the null character at its end. */
const TEXT_BYTES = 4096;

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

/** A timer that needs no event loop; not set at first. */
interface NativeTimer {
  /** Sets it to `ms` from now; time counts while the machine sleeps, too. Replaces what was set before. */
  set(ms: number): void;
  unset(): void;
}

/** Timers of the C library, which run in a thread of their own. */
interface NativeTimers {
  /** Runs a shell command (system(3)) that writes to stdout; its text is that of `setText`. */
  shell(): NativeTimer & { setText(text: string): void };
  /** Ends this process at once (_exit(2)). */
  exit(): NativeTimer;
}

/** Undefined where the C library cannot be called. */
function nativeTimers(): NativeTimers | undefined {
  if (process.platform !== "linux") return undefined;
  try {
    return load();
  } catch {
    return undefined;
  }
}

function load(): NativeTimers {
  const koffi = createRequire(import.meta.url)("koffi") as typeof koffiType;
  const library = koffi.load(null);
  const create = library.func("int timer_create(int clock, void *event, void *id)");
  const settime = library.func("int timer_settime(uintptr_t id, int flags, void *spec, void *before)");
  const calloc = library.func("void *calloc(size_t count, size_t size)");
  const memcpy = library.func("void *memcpy(void *to, void *from, size_t size)");
  const dlsym = library.func("void *dlsym(intptr_t library, const char *name)");
  const fcntl = library.func("int fcntl(int file, int command, int argument)");
  const timer = (name: string, argument: bigint): NativeTimer => {
    const id = Buffer.alloc(STRUCT_BYTES);
    if (create(CLOCK_BOOTTIME, eventOf(koffi.address(dlsym(0, name)), argument), id) !== 0)
      throw new Error(`timer_create: ${koffi.errno()}`);
    const set = (ms: number): void => void settime(id.readBigUInt64LE(), 0, specOf(ms), null);
    return { set: (ms) => set(Math.max(ms, 1)), unset: () => set(0) };
  };
  // Node closes its files in all children that it did not start itself.
  fcntl(STDOUT, F_SETFD, 0);
  return {
    shell() {
      // Never freed: memory that was collected as garbage must not be run as a command.
      const memory: unknown = calloc(1, TEXT_BYTES);
      const setText = (text: string): void => {
        const bytes = Buffer.alloc(TEXT_BYTES);
        if (Buffer.byteLength(text) >= TEXT_BYTES) throw new RangeError("the command is too long");
        bytes.write(text);
        memcpy(memory, bytes, TEXT_BYTES);
      };
      return { ...timer("system", koffi.address(memory)), setText };
    },
    exit: () => timer("_exit", 0n),
  };
}

/** struct sigevent: the argument, no signal, a thread, and the function it calls. */
function eventOf(address: bigint, argument: bigint): Buffer {
  const event = Buffer.alloc(STRUCT_BYTES);
  event.writeBigUInt64LE(argument, 0);
  event.writeInt32LE(SIGEV_THREAD, 12);
  event.writeBigUInt64LE(address, 16);
  return event;
}

/** struct itimerspec: no interval, then seconds and nanoseconds; zero stops it. */
function specOf(ms: number): Buffer {
  const spec = Buffer.alloc(STRUCT_BYTES);
  const whole = Math.ceil(ms);
  spec.writeBigInt64LE(BigInt(Math.floor(whole / 1000)), 16);
  spec.writeBigInt64LE(BigInt((whole % 1000) * 1_000_000), 24);
  return spec;
}
