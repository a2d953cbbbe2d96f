/** Starts a child in a process group of its own, through the C library or with execa, and tells how it ended. */

import type { Readable, Writable } from "node:stream";
import { Socket } from "node:net";
import { getSystemErrorName } from "node:util";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, resolve } from "node:path";

import { execa } from "execa";

import { toError } from "../lib/index.ts";
import { Reaper, STRUCT_BYTES, libc, type Libc, type Usage } from "./libc.ts";

/** What to start. `env` is the whole environment of the child. */
export interface LaunchSpec {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** A pipe that the caller writes to; undefined = /dev/null. */
  readonly stdin?: "pipe" | undefined;
}

/** How a child ended, or why it never began. */
export type Exit =
  | {
      readonly kind: "exited";
      readonly code: number | undefined;
      readonly signal: string | undefined;
      readonly usage: Usage | undefined;
    }
  | { readonly kind: "notStarted"; readonly error: NodeJS.ErrnoException };

/** A child that was started (or could not be), leader of its own process group. */
export interface Child {
  readonly pid: number | undefined;
  readonly stdin: Writable | undefined;
  readonly stdout: Readable | undefined;
  readonly stderr: Readable | undefined;
  /** Resolves when the leader has ended; processes it left behind may hold its streams open longer. Never rejects. */
  readonly exit: Promise<Exit>;
}

type Start = (spec: LaunchSpec) => Child;

let best: Start | undefined;

/** Starts through the C library where possible (see LibcSpawner). */
function bestStart(): Start {
  const library = libc();
  if (library === undefined) return startByExeca;
  const spawner = new LibcSpawner(library);
  return (spec) => spawner.start(spec);
}

/** Starts a child in a process group of its own. Never throws: a failed start is an `Exit` too. */
export function launch(spec: LaunchSpec): Child {
  try {
    best ??= bestStart();
    return best(spec);
  } catch (error) {
    const exit = Promise.resolve<Exit>({ kind: "notStarted", error: toError(error) });
    return { pid: undefined, stdin: undefined, stdout: undefined, stderr: undefined, exit };
  }
}

const STREAMS = {
  stdout: "pipe",
  stderr: "pipe",
  // The output is read here, with a limit; execa neither keeps nor decodes it.
  buffer: false,
  encoding: "buffer",
  stripFinalNewline: false,
} as const;
/** A failure is a result; the group is ended here; and the operator's own end waits for nobody (see endChildren). */
const MANNERS = { reject: false, detached: true, cleanup: false, extendEnv: false } as const;

/** Starts a child that leads a process group of its own. Throws errors that are known at once. */
export function startByExeca(spec: LaunchSpec): Child {
  const { file, args, cwd, env } = spec;
  const stdin = spec.stdin === undefined ? ("ignore" as const) : ("pipe" as const);
  const child = execa(file, args, { ...STREAMS, ...MANNERS, stdin, cwd, env });
  const exit = new Promise<Exit>((resolve) => {
    child.nodeChildProcess.once("exit", (code, signal) => resolve(exited(code, signal)));
    void child.then((result) => resolve(lateExit(result)));
  });
  const { pid, stdout, stderr } = child;
  return { pid, stdin: child.stdin ?? undefined, stdout, stderr, exit };
}

function exited(code: number | null, signal: string | null): Exit {
  return { kind: "exited", code: code ?? undefined, signal: signal ?? undefined, usage: undefined };
}

interface ExecaEnd {
  readonly exitCode?: number | undefined;
  readonly signal?: string | undefined;
  readonly cause?: unknown;
  readonly code?: string | undefined;
  readonly shortMessage?: string | undefined;
}

/** Without an `exit` event the child was never started. */
function lateExit(result: ExecaEnd): Exit {
  if (result.exitCode !== undefined || result.signal !== undefined) {
    return exited(result.exitCode ?? null, result.signal ?? null);
  }
  const error: NodeJS.ErrnoException = toError(result.cause ?? result.shortMessage);
  return { kind: "notStarted", error };
}

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

/** Absolute path of a program: of a name on `searchPath`, or of a path itself. Undefined where it cannot be executed. */
export function findProgram(name: string, searchPath = ""): string | undefined {
  const candidates = name.includes("/")
    ? [resolve(name)]
    : searchPath.split(delimiter).map((dir) => resolve(dir, name));
  return candidates.find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
