/**
 * The file of a unix socket. It never replaces a socket on which a server listens, and is recreated if it is removed, for example by a program that
 * cleans up. The inode shows whether the file at the path is still the one of this server.
 */

import { randomBytes } from "node:crypto";
import { lstatSync } from "node:fs";
import { chmod, lstat, mkdir, readdir, rename, rm } from "node:fs/promises";
import { connect } from "node:net";
import { dirname, join, resolve } from "node:path";

import { findPathProblem, oneLine, type Clock, type Logger } from "../../base/index.ts";
import { Loop } from "../../runtime/index.ts";
import type { RunningServer } from "./web.ts";

type StartServer = (path: string) => Promise<RunningServer>;

const CHECK_MS = 5000;

/** Names of sockets before they are renamed. */
const TEMPORARY_NAME = /^[0-9a-f]{8}$/;

/** A server on a unix socket of mode 0600. */
export class SocketFile {
  readonly #path: string;
  readonly #serve: StartServer;
  #server: RunningServer | undefined;
  #inode: number | undefined;
  #loop: Loop | undefined;
  #pendingRestore: Promise<void> | undefined;

  private constructor(path: string, serve: StartServer) {
    this.#path = path;
    this.#serve = serve;
  }

  /** Starts a server at the path, and removes what killed processes left beside it. Throws if the path is unusable, a server listens on it, or another user could replace the file. */
  static async open(path: string, serve: StartServer): Promise<SocketFile> {
    const socket = new SocketFile(path, serve);
    await socket.#publish();
    await removeAbandonedSockets(dirname(resolve(path)));
    return socket;
  }

  /** Checks the file every few seconds: recreates it if it was removed or replaced by a socket on which no server listens. */
  restoreWhenRemoved(clock: Clock, logger: Logger): void {
    const run = (): Promise<void> => (this.#pendingRestore = this.#restore(logger));
    this.#loop = new Loop({ clock, run, retry: CHECK_MS, resyncMs: CHECK_MS });
    this.#loop.trigger(CHECK_MS);
  }

  /** Stops the server, also one that is starting, and removes the file if this server still owns it. */
  async close(): Promise<void> {
    this.#loop?.close();
    await this.#pendingRestore;
    if (this.#isOwnFile()) await rm(this.#path, { force: true });
    await this.#server?.close();
  }

  /** Recreates the file if it is no longer the file of this server. A failure is only logged. */
  async #restore(logger: Logger): Promise<void> {
    if (this.#isOwnFile()) return;
    const path = this.#path;
    try {
      await this.#publish();
      logger.info("The debug socket file was removed; the operator created it again", { path });
    } catch (error) {
      logger.debug("The debug socket file was removed, and the operator cannot create it again", {
        path,
        error: oneLine(error),
      });
    }
  }

  /** Starts a server at a temporary path, renames its file to the final path, and closes the previous server. */
  async #publish(): Promise<void> {
    const dir = dirname(resolve(this.#path));
    const problem = findPathProblem(dir);
    if (problem !== undefined) throw new Error(problem);
    await mkdir(dir, { recursive: true, mode: 0o700 });
    if (await isListening(this.#path)) throw new Error("another process listens on this socket");
    // A temporary name hides the file until its mode is set, and a closing server removes only that name.
    const temporaryPath = join(dir, randomBytes(4).toString("hex"));
    const server = await this.#serve(temporaryPath);
    const previousServer = this.#server;
    this.#server = server;
    await previousServer?.close();
    try {
      await chmod(temporaryPath, 0o600);
      this.#inode = (await lstat(temporaryPath)).ino;
      await rename(temporaryPath, this.#path);
    } catch (error) {
      await server.close();
      throw error;
    }
  }

  /** Whether the file at the path is the one that this server created: it has the same inode. */
  #isOwnFile(): boolean {
    return lstatSync(this.#path, { throwIfNoEntry: false })?.ino === this.#inode;
  }
}

/** Removes the sockets that processes killed between two steps of `#publish` have left. Ignores a directory that cannot be read. */
async function removeAbandonedSockets(dir: string): Promise<void> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(() => []);
  const sockets = entries.filter((entry) => entry.isSocket() && TEMPORARY_NAME.test(entry.name));
  for (const { name } of sockets) {
    const path = join(dir, name);
    if (!(await isListening(path))) await rm(path, { force: true }).catch(() => {});
  }
}

/** Whether a server listens on a unix socket; a file without a server is left from a process that was killed. */
function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    // EAGAIN (backlog full), EACCES (no permission) and EPROTOTYPE (for datagrams) do not prove that nobody owns the socket.
    socket.on("error", ({ code = "" }: NodeJS.ErrnoException) =>
      resolve(["EAGAIN", "EACCES", "EPROTOTYPE"].includes(code)),
    );
  });
}
