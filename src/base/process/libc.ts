/** Calls functions of the C library on Linux, and collects the children that were started through it. */

import { createRequire } from "node:module";
import { constants } from "node:os";
import { isMainThread } from "node:worker_threads";

import type { default as koffiType, LibraryHandle } from "koffi";

import { systemClock, Timers } from "../index.ts";

/** Bytes for an opaque structure of the C library: more than any of them needs. */
export const STRUCT_BYTES = 512;

/** The result of getrusage(2): times in seconds and microseconds, the peak in KiB. */
interface Rusage {
  readonly ru_utime: Timeval;
  readonly ru_stime: Timeval;
  readonly ru_maxrss: number;
}

interface Timeval {
  readonly tv_sec: number;
  readonly tv_usec: number;
}

/** The functions of the C library that start a child; each as in its manual page. */
export interface Libc {
  pipe2(fds: [number, number], flags: number): number;
  close(fd: number): number;
  wait4(pid: number, status: [number], options: number, usage: Partial<Rusage>): number;
  posix_spawn(
    pid: [number],
    path: string,
    actions: Buffer,
    attributes: Buffer,
    argv: readonly (string | null)[],
    envp: readonly (string | null)[],
  ): number;
  posix_spawn_file_actions_init(actions: Buffer): number;
  posix_spawn_file_actions_destroy(actions: Buffer): number;
  posix_spawn_file_actions_addopen(
    actions: Buffer,
    fd: number,
    path: string,
    flags: number,
    mode: number,
  ): number;
  posix_spawn_file_actions_adddup2(actions: Buffer, from: number, to: number): number;
  posix_spawn_file_actions_addchdir_np(actions: Buffer, path: string): number;
  posix_spawnattr_init(attributes: Buffer): number;
  posix_spawnattr_setflags(attributes: Buffer, flags: number): number;
  posix_spawnattr_setsigmask(attributes: Buffer, set: Buffer): number;
  posix_spawnattr_setsigdefault(attributes: Buffer, set: Buffer): number;
  prlimit(pid: number, resource: number, limits: Buffer, oldLimits: null): number;
  /** Returns free memory to the system; musl does not have it. */
  malloc_trim?(pad: number): number;
  /** The error of the last call that returned -1. */
  errno(): number;
  /** Reports the end of children. There is one for all, because SIGCHLD is sent to the process. */
  readonly reaper: Reaper;
}

const PROTOTYPES = {
  pipe2: "int pipe2(_Out_ int *fds, int flags)",
  close: "int close(int fd)",
  wait4: "int wait4(int pid, _Out_ int *status, int options, _Out_ addon_rusage *usage)",
  posix_spawn:
    "int posix_spawn(_Out_ int *pid, const char *path, void *actions, void *attributes, const char **argv, const char **envp)",
  posix_spawn_file_actions_init: "int posix_spawn_file_actions_init(void *actions)",
  posix_spawn_file_actions_destroy: "int posix_spawn_file_actions_destroy(void *actions)",
  posix_spawn_file_actions_addopen:
    "int posix_spawn_file_actions_addopen(void *actions, int fd, const char *path, int flags, unsigned int mode)",
  posix_spawn_file_actions_adddup2: "int posix_spawn_file_actions_adddup2(void *actions, int from, int to)",
  posix_spawn_file_actions_addchdir_np:
    "int posix_spawn_file_actions_addchdir_np(void *actions, const char *path)",
  posix_spawnattr_init: "int posix_spawnattr_init(void *attributes)",
  posix_spawnattr_setflags: "int posix_spawnattr_setflags(void *attributes, short flags)",
  posix_spawnattr_setsigmask: "int posix_spawnattr_setsigmask(void *attributes, void *set)",
  posix_spawnattr_setsigdefault: "int posix_spawnattr_setsigdefault(void *attributes, void *set)",
  prlimit: "int prlimit(int pid, int resource, const void *limits, void *oldLimits)",
} as const;

/** The loaded C library; false = it cannot be loaded; undefined = not tried yet. */
let cachedLibc: Libc | false | undefined;

/** Loads the C library on Linux once; undefined elsewhere, in worker threads (they get no SIGCHLD), and where koffi is not installed. */
export function getLibc(): Libc | undefined {
  const isSupported = process.platform === "linux" && isMainThread;
  // `false`: loading was tried in vain.
  cachedLibc ??= (isSupported ? loadLibc() : undefined) ?? false;
  return cachedLibc === false ? undefined : cachedLibc;
}

/** Returns memory to the system that the C library keeps after it was freed: the Pod's limit counts it. */
export function releaseFreeMemory(): void {
  getLibc()?.malloc_trim?.(0);
}

/** Whether the C library cannot be called on Linux: then children start slower, and their output goes through sockets. */
export function isLibcUnavailable(): boolean {
  return process.platform === "linux" && getLibc() === undefined;
}

/** Loads the C library through koffi; undefined if that fails. */
function loadLibc(): Libc | undefined {
  try {
    const koffi = createRequire(import.meta.url)("koffi") as typeof koffiType;
    const library = koffi.load(null);
    const timeval = koffi.struct({ tv_sec: "long", tv_usec: "long" });
    // 13 more fields in glibc and musl, and 16 reserved words in musl.
    const otherFields = koffi.array("long", 29);
    koffi.struct("addon_rusage", { ru_utime: timeval, ru_stime: timeval, ru_maxrss: "long", otherFields });
    const entries = Object.entries(PROTOTYPES).map(([name, prototype]) => [name, library.func(prototype)]);
    const functions = Object.fromEntries(entries) as Omit<Libc, "errno" | "reaper">;
    return {
      ...functions,
      ...findMallocTrim(library),
      errno: () => koffi.errno(),
      reaper: new Reaper(functions),
    };
  } catch {
    return undefined;
  }
}

/** The function malloc_trim(3), which only glibc has. */
function findMallocTrim(library: LibraryHandle): Pick<Libc, "malloc_trim"> {
  try {
    return { malloc_trim: library.func("int malloc_trim(size_t pad)") as (pad: number) => number };
  } catch {
    return {};
  }
}

/** How a child ended, and what it used. */
export interface ProcessExit {
  readonly code: number | undefined;
  readonly signal: string | undefined;
  readonly usage: Usage | undefined;
}

/** What a process and the children it waited for used (getrusage). */
export interface Usage {
  readonly userSeconds: number;
  readonly systemSeconds: number;
  /** Undefined where it does not exceed the operator's own peak, which the child inherits before it executes its program. */
  readonly maxRssBytes: number | undefined;
}

const WNOHANG = 1;
/** SIGCHLD reports ends; this timer also keeps the event loop alive, which a signal handler does not. */
const CHECK_MS = 1000;

/** Collects the exit of children that were started through the C library: Node collects only its own. */
class Reaper {
  readonly #libc: Pick<Libc, "wait4">;
  readonly #onExitByPid = new Map<number, (end: ProcessExit) => void>();
  readonly #timers = new Timers<"check">(systemClock);

  constructor(libc: Pick<Libc, "wait4">) {
    this.#libc = libc;
    process.on("SIGCHLD", () => this.#reapExited());
  }

  /** Resolves when the child has exited. Call it in the same turn of the event loop as the start, or SIGCHLD may come before. */
  waitForExit(pid: number): Promise<ProcessExit> {
    this.#timers.setUnlessRunning("check", CHECK_MS, () => this.#reapPeriodically());
    return new Promise((resolve) => this.#onExitByPid.set(pid, resolve));
  }

  /** Reaps all children that have exited: one SIGCHLD may stand for several. Stops the timer after the last child. */
  #reapExited(): void {
    for (const [pid, onExit] of this.#onExitByPid) {
      const exit = this.#pollExit(pid);
      if (exit === undefined) continue;
      this.#onExitByPid.delete(pid);
      onExit(exit);
    }
    if (this.#onExitByPid.size > 0) return;
    this.#timers.cancel("check");
  }

  /** Reaps children each second while any is alive, in case that a SIGCHLD was lost. */
  #reapPeriodically(): void {
    this.#timers.set("check", CHECK_MS, () => this.#reapPeriodically());
    this.#reapExited();
  }

  /** Reaps a child if it has exited; undefined while it runs. Does not block. */
  #pollExit(pid: number): ProcessExit | undefined {
    const status: [number] = [0];
    const usage: Partial<Rusage> = {};
    const waitedPid = this.#libc.wait4(pid, status, WNOHANG, usage);
    if (waitedPid === 0) return undefined;
    // An error: something else has collected the child, so how it ended is unknown.
    if (waitedPid !== pid) return { code: undefined, signal: "SIGKILL", usage: undefined };
    return { ...decodeWaitStatus(status[0]), usage: toUsage(usage as Rusage) };
  }
}

/** Decodes a status of wait(2), as its macros WIFEXITED, WEXITSTATUS and WTERMSIG do. */
function decodeWaitStatus(status: number): Pick<ProcessExit, "code" | "signal"> {
  const signalNumber = status & 0x7f;
  if (signalNumber === 0) return { code: (status >> 8) & 0xff, signal: undefined };
  const name = Object.entries(constants.signals).find(([, number]) => number === signalNumber)?.[0];
  return { code: undefined, signal: name ?? `signal ${signalNumber}` };
}

/**
 * Converts the resource usage of a child (getrusage(2)). A child inherits the operator's peak memory before it executes its program: only a higher
 * peak shows something of the child.
 */
function toUsage({ ru_utime, ru_stime, ru_maxrss }: Rusage): Usage {
  const seconds = ({ tv_sec, tv_usec }: Timeval): number => tv_sec + tv_usec / 1e6;
  return {
    userSeconds: seconds(ru_utime),
    systemSeconds: seconds(ru_stime),
    maxRssBytes: ru_maxrss > process.resourceUsage().maxRSS ? ru_maxrss * 1024 : undefined,
  };
}
