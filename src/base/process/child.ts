/**
 * Starts a child in a process group of its own, through the C library or Node, and reports how it ended. The C library is preferred: it is faster,
 * its pipes can be opened as /dev/stdout and /dev/stderr, and it reports the CPU time and memory of the child (wait4(2)).
 */

import { spawn } from "node:child_process";
import {
  accessSync,
  closeSync,
  constants,
  fchownSync,
  openSync,
  readSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { Socket } from "node:net";
import { setPriority } from "node:os";
import { delimiter, resolve } from "node:path";
import type { Readable, Writable } from "node:stream";
import { getSystemErrorName } from "node:util";

import { attempt, toError } from "../index.ts";
import { STRUCT_BYTES, getLibc, type Libc, type ProcessExit } from "./libc.ts";

/** What to start. `env` is the whole environment of the child. */
export interface LaunchSpec {
  /** A path, or a name that is looked up on PATH. */
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** A pipe that the caller writes to; undefined = /dev/null. */
  readonly stdin?: "pipe" | undefined;
  /** User id of the child (`user-ids/user-ids.ts`); undefined = the operator's. */
  readonly uid?: number | undefined;
  /** Gives way to the operator and its other children where processors are scarce. */
  readonly givesWay?: boolean | undefined;
  /** Bytes of memory that the child, and each process that it starts, may have for data. Beyond them, allocations fail. Only through the C library. */
  readonly memoryLimit?: number | undefined;
}

/** How a child ended, or why it was not started. */
export type Exit =
  | ({ readonly kind: "exited" } & ProcessExit)
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

/** A child that the operator ends when it stops. The child is alive while `ended` is pending. */
export interface TrackedChild {
  end(graceMs: number): void;
  readonly ended: Promise<unknown>;
}

/** What one run or coprocess needs of `Children`, the owner of all children. */
export interface ChildHost {
  launch(spec: LaunchSpec): Child;
  /** Registers a child, which the host ends when the operator stops. */
  track(child: TrackedChild): void;
  /** Calls a reader of output lines; its error is reported, and ends neither the operator nor the reading. */
  callGuarded(fn: () => void): void;
}

/** Where memory is short, the system kills a child in place of the operator, whose work the others would lose. */
const FIRST_TO_KILL = "1000";

/** The niceness of children that yield: a tenth of the weight of others, so that they still make progress. */
const YIELDING_NICENESS = 10;

/**
 * Creates the function that starts children, each in a process group of its own: through the C library where possible, otherwise
 * through Node. The function never throws: a failed start is an `Exit` too.
 */
export function createLauncher(): (spec: LaunchSpec) => Child {
  const library = getLibc();
  const spawner = library && new LibcSpawner(library);
  return (request) => {
    try {
      const spec = request.uid === undefined ? request : wrapInSetpriv(request, request.uid);
      const child = spawner?.start(spec) ?? startByNode(spec);
      const { pid } = child;
      // Ignores an error: the child may have ended, or run under another user id already.
      if (spec.givesWay === true && pid !== undefined) attempt(() => setPriority(pid, YIELDING_NICENESS));
      if (pid !== undefined) attempt(() => writeFileSync(`/proc/${pid}/oom_score_adj`, FIRST_TO_KILL));
      return child;
    } catch (error) {
      const exit = Promise.resolve<Exit>({ kind: "notStarted", error: toError(error) });
      return { pid: undefined, stdin: undefined, stdout: undefined, stderr: undefined, exit };
    }
  };
}

/** Starts a child through Node, where the C library cannot be called; `detached` makes it lead a process group. Throws errors that are known at once. */
export function startByNode({ file, args, cwd, env, stdin }: LaunchSpec): Child {
  const child = spawn(file, args, { stdio: [stdin ?? "ignore", "pipe", "pipe"], cwd, env, detached: true });
  const exit = new Promise<Exit>((resolve) => {
    child.once("exit", (code, signal) =>
      resolve({ kind: "exited", code: code ?? undefined, signal: signal ?? undefined, usage: undefined }),
    );
    child.once("error", (error) => resolve({ kind: "notStarted", error }));
  });
  const { pid, stdin: input, stdout, stderr } = child;
  const streams = { stdin: input ?? undefined, stdout: stdout ?? undefined, stderr: stderr ?? undefined };
  return { pid, ...streams, exit };
}

/** Linux values, which are equal in glibc and musl on the supported architectures. */
const O_CLOEXEC = 0o2000000;
const SETPGROUP = 0x02;
const SETSIGDEF = 0x04;
const SETSIGMASK = 0x08;
const SETSID = 0x80;
const RLIMIT_DATA = 2;

/** Enough for the `#!` line of a script, and the header of a program. */
const HEAD_BYTES = 512;

/** The first bytes of a file, as Latin-1 text; empty for a file that cannot be read. */
export function readHead(file: string): string {
  const head = Buffer.alloc(HEAD_BYTES);
  const length = attempt(() => {
    // Without O_NONBLOCK, opening a FIFO waits for a writer.
    const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return readSync(fd, head);
    } finally {
      closeSync(fd);
    }
  });
  return head.toString("latin1", 0, length ?? 0);
}

/** The errno of a missing file. */
const ENOENT = 2;
const SHELL = "/bin/sh";

const [STDIN, STDOUT, STDERR] = [0, 1, 2] as const;
/** One end of each pipe, by the number of the stream; undefined = no pipe. */
type Fds = (number | undefined)[];

/**
 * Starts children with posix_spawn. Node forks the whole address space, which blocks the event loop ten times as long.
 * Output goes through pipes, not sockets, so that a hook may write to `/dev/stderr`.
 */
export class LibcSpawner {
  readonly #libc: Libc;
  /** Attributes of a child that leads a session of its own, and of one that leads only a process group. */
  readonly #sessionAttributes: Buffer;
  readonly #groupAttributes: Buffer;

  /** Builds the attributes of both kinds of children once. */
  constructor(libc: Libc) {
    this.#libc = libc;
    this.#sessionAttributes = buildSpawnAttributes(libc, SETSID);
    this.#groupAttributes = buildSpawnAttributes(libc, SETPGROUP);
  }

  /**
   * Starts a child that leads a session of its own, or, if it gives way, a process group in the operator's session: where Linux gives each session an
   * equal share of the processors (autogroup), niceness counts only within a session. Throws an ErrnoException.
   */
  start(spec: LaunchSpec): Child {
    const childFds: Fds = [undefined, undefined, undefined];
    const ownFds: Fds = [undefined, undefined, undefined];
    try {
      if (spec.stdin !== undefined) this.#createPipe(STDIN, childFds, ownFds);
      this.#createPipe(STDOUT, ownFds, childFds);
      this.#createPipe(STDERR, ownFds, childFds);
      chownPipes(spec.uid, childFds);
      const pid = this.#spawn(spec, childFds);
      this.#limitMemory(pid, spec.memoryLimit);
      return { pid, ...toStreams(ownFds), exit: this.#waitForExit(pid) };
    } catch (error) {
      this.#closeAll(ownFds);
      throw error;
    } finally {
      this.#closeAll(childFds);
    }
  }

  /** Creates the pipe of a stream (fd 0, 1 or 2 of the child): its reading end in `readerFds`, its writing end in `writerFds`. No other child inherits the ends. */
  #createPipe(stream: number, readerFds: Fds, writerFds: Fds): void {
    const fds: [number, number] = [-1, -1];
    if (this.#libc.pipe2(fds, O_CLOEXEC) !== 0) throw makeErrnoException(this.#libc.errno(), "pipe2");
    [readerFds[stream], writerFds[stream]] = fds;
  }

  #closeAll(fds: Fds): void {
    for (const fd of fds) if (fd !== undefined) this.#libc.close(fd);
  }

  /**
   * Starts the file and returns its pid. Like execvp(3), looks up a name without slash on the child's own PATH, and gives a script
   * without a "#!" line to the shell.
   */
  #spawn({ file, args, cwd, env, givesWay }: LaunchSpec, fds: Readonly<Fds>): number {
    const path = file.includes("/") ? file : findProgram(file, env["PATH"]);
    if (path === undefined) throw makeErrnoException(ENOENT, `spawn ${file}`);
    const actions = this.#buildFileActions(cwd, fds);
    const attributes = givesWay === true ? this.#groupAttributes : this.#sessionAttributes;
    const options = { env, actions, attributes };
    try {
      return this.#posixSpawn([path, file, ...args], options);
    } catch (error) {
      // A shell would run what it takes for lines in a program for another system.
      const mayBeScript =
        (error as NodeJS.ErrnoException).code === "ENOEXEC" && !readHead(path).includes("\0");
      if (!mayBeScript) throw error;
      return this.#posixSpawn([SHELL, SHELL, path, ...args], options);
    } finally {
      this.#libc.posix_spawn_file_actions_destroy(actions);
    }
  }

  /** Starts `path` with the arguments `argv` (the first is its name), and returns the pid. Throws an ErrnoException. */
  #posixSpawn([path, ...argv]: [string, ...string[]], { env, actions, attributes }: SpawnOptions): number {
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    // C strings end at a null character: the rest would be lost silently.
    if ([path, ...argv, ...variables].some((text) => text.includes("\0")))
      throw new TypeError("the arguments or the environment contain a null character");
    const pid: [number] = [0];
    // Lists of C end with a null pointer.
    const args = [...argv, null];
    const environment = [...variables, null];
    const error = this.#libc.posix_spawn(pid, path, actions, attributes, args, environment);
    if (error !== 0) throw makeErrnoException(error, `spawn ${path}`);
    return pid[0];
  }

  /** Limits the memory of a child, which its program may have begun to use. An error is ignored: the child may have ended. */
  #limitMemory(pid: number, bytes: number | undefined): void {
    if (bytes === undefined) return;
    // The soft and the hard limit.
    const limits = Buffer.from(BigUint64Array.of(BigInt(bytes), BigInt(bytes)).buffer);
    this.#libc.prlimit(pid, RLIMIT_DATA, limits, null);
  }

  /** Builds the actions of the child before its program runs: change the directory, use the pipes as fds 0 to 2. */
  #buildFileActions(cwd: string, fds: Readonly<Fds>): Buffer {
    const actions = Buffer.alloc(STRUCT_BYTES);
    this.#libc.posix_spawn_file_actions_init(actions);
    this.#libc.posix_spawn_file_actions_addchdir_np(actions, cwd);
    for (const [childFd, fd] of fds.entries()) {
      if (fd === undefined) this.#libc.posix_spawn_file_actions_addopen(actions, childFd, "/dev/null", 0, 0);
      else this.#libc.posix_spawn_file_actions_adddup2(actions, fd, childFd);
    }
    return actions;
  }

  async #waitForExit(pid: number): Promise<Exit> {
    return { kind: "exited", ...(await this.#libc.reaper.waitForExit(pid)) };
  }
}

/** What posix_spawn gets besides the program and its arguments. */
interface SpawnOptions {
  readonly env: LaunchSpec["env"];
  readonly actions: Buffer;
  readonly attributes: Buffer;
}

/** Builds the attributes of a child that leads a new session or process group (`leaderFlag`). Signals that Node blocks or ignores, such as SIGPIPE, get their defaults back. */
function buildSpawnAttributes(libc: Libc, leaderFlag: number): Buffer {
  const attributes = Buffer.alloc(STRUCT_BYTES);
  libc.posix_spawnattr_init(attributes);
  libc.posix_spawnattr_setflags(attributes, leaderFlag | SETSIGMASK | SETSIGDEF);
  libc.posix_spawnattr_setsigmask(attributes, Buffer.alloc(STRUCT_BYTES));
  libc.posix_spawnattr_setsigdefault(attributes, Buffer.alloc(STRUCT_BYTES, 0xff));
  return attributes;
}

/** Makes the user the owner of the child's pipes, so that the child may open `/dev/stderr`. Does nothing without `uid`. */
function chownPipes(uid: number | undefined, fds: Readonly<Fds>): void {
  for (const fd of fds) if (fd !== undefined && uid !== undefined) fchownSync(fd, uid, uid);
}

/** Wraps a command in setpriv, which runs it under a user id without supplementary groups and capabilities; set-uid programs cannot regain them. */
function wrapInSetpriv(spec: LaunchSpec, uid: number): LaunchSpec {
  const ids = [`--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"];
  const args = [...ids, "--inh-caps=-all", "--no-new-privs", "--", spec.file, ...spec.args];
  return { ...spec, file: "setpriv", args };
}

/** The operator's ends of the pipes as Node streams. */
function toStreams([stdin, stdout, stderr]: Readonly<Fds>): Pick<Child, "stdin" | "stdout" | "stderr"> {
  const toReadable = (fd: number | undefined): Socket => new Socket({ fd, readable: true, writable: false });
  return {
    stdin: stdin === undefined ? undefined : new Socket({ fd: stdin, readable: false, writable: true }),
    stdout: toReadable(stdout),
    stderr: toReadable(stderr),
  };
}

/** An error like those of Node's system calls, for an errno of the C library. */
function makeErrnoException(errno: number, syscall: string): NodeJS.ErrnoException {
  const code = getSystemErrorName(-errno);
  return Object.assign(new Error(`${syscall} ${code}`), { errno: -errno, code, syscall });
}

/** Absolute path of a program, given as a path or as a name on `searchPath`. Undefined if there is no such executable file. */
export function findProgram(name: string, searchPath = ""): string | undefined {
  const candidates = name.includes("/")
    ? [resolve(name)]
    : searchPath.split(delimiter).map((dir) => resolve(dir, name));
  return candidates.find((path) =>
    attempt(() => {
      accessSync(path, constants.X_OK);
      return statSync(path).isFile();
    }),
  );
}
