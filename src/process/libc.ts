/** Calls functions of the C library on Linux, and collects the children that were started through it. */

import { createRequire } from "node:module";
import { constants } from "node:os";
import { isMainThread } from "node:worker_threads";

import type koffiType from "koffi";

import { systemClock, type Timer } from "../lib/index.ts";

/** Size of the memory handed to C: more than any of the structures named here needs. */
export const STRUCT_BYTES = 512;

/** The functions of the C library that start a child; each as in its manual page. */
export interface Libc {
  pipe2(fds: [number, number], flags: number): number;
  close(fd: number): number;
  wait4(pid: number, status: [number], options: number, usage: Buffer): number;
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
  /** The error of the last call that returned -1. */
  errno(): number;
}

const PROTOTYPES = {
  pipe2: "int pipe2(_Out_ int *fds, int flags)",
  close: "int close(int fd)",
  wait4: "int wait4(int pid, _Out_ int *status, int options, void *usage)",
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
} as const;

let known: Libc | false | undefined;

/**
 * The C library on Linux; undefined elsewhere, in worker threads (they get no SIGCHLD), and where koffi is not
 * installed.
 */
export function libc(): Libc | undefined {
  known ??= (process.platform === "linux" && isMainThread && load()) || false;
  return known === false ? undefined : known;
}

/** False on Linux where the C library cannot be called: children start slower, with sockets for output. */
export function startsAsMeant(): boolean {
  return process.platform !== "linux" || libc() !== undefined;
}

function load(): Libc | undefined {
  try {
    const koffi = createRequire(import.meta.url)("koffi") as typeof koffiType;
    const library = koffi.load(null);
    const entries = Object.entries(PROTOTYPES).map(([name, prototype]) => [name, library.func(prototype)]);
    return { ...Object.fromEntries(entries), errno: () => koffi.errno() } as Libc;
  } catch {
    return undefined;
  }
}

/** How a child ended, and what it used. */
export interface Reaped {
  readonly code: number | undefined;
  readonly signal: string | undefined;
  readonly usage: Usage | undefined;
}

/** What a process and the children it waited for used (getrusage). */
export interface Usage {
  readonly userSeconds: number;
  readonly systemSeconds: number;
  /** Undefined where it is less than the operator's own, which the child had before it executed its program. */
  readonly maxRssBytes: number | undefined;
}

const WNOHANG = 1;
/** A signal tells of ends; this regular look is needed since a signal alone does not keep the event loop alive. */
const LOOK_MS = 1000;

/** Collects children that were not started by Node's child_process. */
export class Reaper {
  readonly #libc: Libc;
  readonly #living = new Map<number, (end: Reaped) => void>();
  #looking: Timer | undefined;

  constructor(libc: Libc) {
    this.#libc = libc;
    process.on("SIGCHLD", () => this.#look());
  }

  /** Resolves when the child has ended. Call it in the same turn as its start. */
  ended(pid: number): Promise<Reaped> {
    this.#looking ??= systemClock.setTimer(LOOK_MS, () => this.#lookAgain());
    return new Promise((resolve) => this.#living.set(pid, resolve));
  }

  /** One signal may stand for several children. */
  #look(): void {
    for (const [pid, tell] of this.#living) {
      const end = this.#wait(pid);
      if (end === undefined) continue;
      this.#living.delete(pid);
      tell(end);
    }
    if (this.#living.size > 0) return;
    this.#looking?.cancel();
    this.#looking = undefined;
  }

  #lookAgain(): void {
    this.#looking = systemClock.setTimer(LOOK_MS, () => this.#lookAgain());
    this.#look();
  }

  #wait(pid: number): Reaped | undefined {
    const status: [number] = [0];
    const usage = Buffer.alloc(STRUCT_BYTES);
    const found = this.#libc.wait4(pid, status, WNOHANG, usage);
    if (found === 0) return undefined;
    if (found !== pid) return { code: undefined, signal: "SIGKILL", usage: undefined };
    return { ...ending(status[0]), usage: usageOf(usage) };
  }
}

/** WIFEXITED, WEXITSTATUS and WTERMSIG of wait(2). */
function ending(status: number): Pick<Reaped, "code" | "signal"> {
  const by = status & 0x7f;
  if (by === 0) return { code: (status >> 8) & 0xff, signal: undefined };
  const name = Object.entries(constants.signals).find(([, number]) => number === by)?.[0];
  return { code: undefined, signal: name ?? `signal ${by}` };
}

/** struct rusage: user and system time as seconds and microseconds, then the peak in KiB; all 64 bits wide. */
function usageOf(usage: Buffer): Usage {
  const word = (index: number): number => Number(usage.readBigInt64LE(8 * index));
  const peak = word(4) * 1024;
  return {
    userSeconds: word(0) + word(1) / 1e6,
    systemSeconds: word(2) + word(3) / 1e6,
    maxRssBytes: peak > process.resourceUsage().maxRSS * 1024 ? peak : undefined,
  };
}
