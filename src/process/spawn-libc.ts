/** Starts children with posix_spawn of the C library, finds their programs as a shell does, and collects them. */

import { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { getSystemErrorName } from "node:util";
import { constants } from "node:os";
import { accessSync, constants as access, statSync } from "node:fs";
import { delimiter, resolve } from "node:path";

import { systemClock } from "../lib/index.ts";
import type { Timer } from "../lib/index.ts";
import type { Child, Exit, LaunchSpec } from "./child.ts";
import { STRUCT_BYTES } from "./libc.ts";
import type { Libc } from "./libc.ts";

/** Linux values; the same in glibc and musl on the architectures we run on. */
const O_CLOEXEC = 0o2000000;
const SETSIGDEF = 0x04;
const SETSIGMASK = 0x08;
const SETSID = 0x80;

const SHELL = "/bin/sh";

/** The ends of the pipes for stdin, stdout and stderr; undefined where there is no pipe. */
type Fds = (number | undefined)[];

/**
 * Starts children with posix_spawn. Node forks the whole address space; this blocks the event loop for a tenth of
 * that time. Output goes through pipes, not sockets, so that a hook may write to `/dev/stderr`.
 */
export class LibcSpawner {
  readonly #libc: Libc;
  readonly #reaper: Reaper;
  readonly #attributes: Buffer;

  constructor(libc: Libc) {
    this.#libc = libc;
    this.#reaper = new Reaper(libc);
    this.#attributes = newSession(libc);
  }

  /** Starts a child that leads a session of its own. Throws an ErrnoException when that fails. */
  start(spec: LaunchSpec): Child {
    const theirs: Fds = [];
    const ours: Fds = [];
    try {
      if (spec.stdin !== undefined) this.#pipe(theirs, ours);
      else for (const side of [theirs, ours]) side.push(undefined);
      this.#pipe(ours, theirs);
      this.#pipe(ours, theirs);
      const pid = this.#spawn(spec, theirs);
      return { pid, ...streams(ours), exit: this.#exit(pid) };
    } catch (error) {
      this.#close(ours);
      throw error;
    } finally {
      this.#close(theirs);
    }
  }

  /** Gives the two ends of a pipe to the one that reads and the one that writes. */
  #pipe(reader: Fds, writer: Fds): void {
    const fds: [number, number] = [-1, -1];
    if (this.#libc.pipe2(fds, O_CLOEXEC) !== 0) throw errnoException(this.#libc.errno(), "pipe2");
    reader.push(fds[0]);
    writer.push(fds[1]);
  }

  #close(fds: Fds): void {
    for (const fd of fds) if (fd !== undefined) this.#libc.close(fd);
  }

  /** Starts the file; like execvp(3), with the shell where it has no "#!" line. */
  #spawn({ file, args, cwd, env }: LaunchSpec, fds: Readonly<Fds>): number {
    const path = locate(file, env["PATH"]);
    const actions = this.#actions(cwd, fds);
    try {
      return this.#try([path, file, ...args], env, actions);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOEXEC") throw error;
      return this.#try([SHELL, SHELL, path, ...args], env, actions);
    } finally {
      this.#libc.posix_spawn_file_actions_destroy(actions);
    }
  }

  #try([path, ...argv]: [string, ...string[]], env: LaunchSpec["env"], actions: Buffer): number {
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    if ([path, ...argv, ...variables].some((text) => text.includes("\0")))
      throw new TypeError("the arguments or the environment contain a null character");
    const pid: [number] = [0];
    const attributes = this.#attributes;
    const error = this.#libc.posix_spawn(
      pid,
      path,
      actions,
      attributes,
      [...argv, null],
      [...variables, null],
    );
    if (error !== 0) throw errnoException(error, `spawn ${path}`);
    return pid[0];
  }

  #actions(cwd: string, fds: Readonly<Fds>): Buffer {
    const actions = Buffer.alloc(STRUCT_BYTES);
    this.#libc.posix_spawn_file_actions_init(actions);
    this.#libc.posix_spawn_file_actions_addchdir_np(actions, cwd);
    for (const [target, fd] of fds.entries()) {
      if (fd === undefined) this.#libc.posix_spawn_file_actions_addopen(actions, target, "/dev/null", 0, 0);
      else this.#libc.posix_spawn_file_actions_adddup2(actions, fd, target);
    }
    return actions;
  }

  async #exit(pid: number): Promise<Exit> {
    return { kind: "exited", ...(await this.#reaper.ended(pid)) };
  }
}

/** A new session, and no signal blocked or ignored. */
function newSession(libc: Libc): Buffer {
  const attributes = Buffer.alloc(STRUCT_BYTES);
  libc.posix_spawnattr_init(attributes);
  libc.posix_spawnattr_setflags(attributes, SETSID | SETSIGMASK | SETSIGDEF);
  libc.posix_spawnattr_setsigmask(attributes, Buffer.alloc(STRUCT_BYTES));
  libc.posix_spawnattr_setsigdefault(attributes, Buffer.alloc(STRUCT_BYTES, 0xff));
  return attributes;
}

function streams([stdin, stdout, stderr]: Readonly<Fds>): {
  stdin: Writable | undefined;
  stdout: Readable | undefined;
  stderr: Readable | undefined;
} {
  const reading = (fd: number | undefined): Socket => new Socket({ fd, readable: true, writable: false });
  return {
    stdin: stdin === undefined ? undefined : new Socket({ fd: stdin, readable: false, writable: true }),
    stdout: reading(stdout),
    stderr: reading(stderr),
  };
}

/** A name without slash is looked up on the child's own PATH. */
function locate(file: string, searchPath: string | undefined): string {
  const found = file.includes("/") ? file : findProgram(file, searchPath);
  if (found === undefined) throw errnoException(2, `spawn ${file}`);
  return found;
}

function errnoException(errno: number, syscall: string): NodeJS.ErrnoException {
  const code = getSystemErrorName(-errno);
  return Object.assign(new Error(`${syscall} ${code}`), { errno: -errno, code, syscall });
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

/** Absolute path of a program: of a name on `searchPath`, or of a path itself. Undefined where it cannot be executed. */
export function findProgram(name: string, searchPath = ""): string | undefined {
  const candidates = name.includes("/")
    ? [resolve(name)]
    : searchPath.split(delimiter).map((dir) => resolve(dir, name));
  return candidates.find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, access.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
