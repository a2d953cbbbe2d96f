/** The file of a unix socket: it replaces no socket that answers, and is made again where it was removed. */

import { randomBytes } from "node:crypto";
import { lstatSync } from "node:fs";
import { chmod, lstat, mkdir, rename, rm } from "node:fs/promises";
import { connect } from "node:net";
import { dirname, join, resolve } from "node:path";

import { faultOfPlace, oneLine, type Clock, type Logger, type Timer } from "../lib/index.ts";
import type { Listening } from "./web.ts";

/** Starts a server on a path. */
type Serve = (path: string) => Promise<Listening>;

const CHECK_MS = 5000;

/** A server on a unix socket of mode 0600. */
export class SocketFile {
  readonly #path: string;
  readonly #serve: Serve;
  #listening: Listening | undefined;
  #inode: number | undefined;
  #timer: Timer | undefined;
  #restoring: Promise<void> | undefined;
  #isClosed = false;

  private constructor(path: string, serve: Serve) {
    this.#path = path;
    this.#serve = serve;
  }

  /** Throws when the path cannot be used, somebody answers there, or another user could replace it. */
  static async open(path: string, serve: Serve): Promise<SocketFile> {
    const socket = new SocketFile(path, serve);
    await socket.#publish();
    return socket;
  }

  /** From now on the file is made again within seconds where it was removed, or replaced by one that does not answer. */
  watch(clock: Clock, logger: Logger): void {
    this.#timer = clock.setTimer(CHECK_MS, async () => {
      this.#restoring = this.#restore(logger);
      await this.#restoring;
      if (!this.#isClosed) this.watch(clock, logger);
    });
  }

  /** Ends the server, also one that is being started, and removes the file where it is still this server's. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    await this.#restoring;
    if (this.#isOurs()) await rm(this.#path, { force: true });
    await this.#listening?.close();
  }

  async #restore(logger: Logger): Promise<void> {
    if (this.#isOurs()) return;
    const path = this.#path;
    try {
      await this.#publish();
      logger.info("The debug socket was removed, and is there again", { path });
    } catch (error) {
      logger.debug("The debug socket cannot be made again", { path, error: oneLine(error) });
    }
  }

  async #publish(): Promise<void> {
    const dir = dirname(resolve(this.#path));
    const fault = faultOfPlace(dir);
    if (fault !== undefined) throw new Error(fault);
    await mkdir(dir, { recursive: true, mode: 0o700 });
    if (await answersAt(this.#path)) throw new Error("another process answers there");
    // Under another name first: nobody sees it with other rights, and the end of a server removes only that name.
    const fresh = join(dir, randomBytes(4).toString("hex"));
    const [listening, before] = [await this.#serve(fresh), this.#listening];
    this.#listening = listening;
    await before?.close();
    try {
      await chmod(fresh, 0o600);
      this.#inode = (await lstat(fresh)).ino;
      await rename(fresh, this.#path);
    } catch (error) {
      await listening.close();
      throw error;
    }
  }

  #isOurs(): boolean {
    return lstatSync(this.#path, { throwIfNoEntry: false })?.ino === this.#inode;
  }
}

/** Whether something listens on a unix socket. */
function answersAt(path: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(path, () => {
      socket.destroy();
      done(true);
    });
    // One that nobody may connect to now is somebody's all the same.
    socket.on("error", ({ code = "" }: NodeJS.ErrnoException) => done(["EAGAIN", "EACCES"].includes(code)));
  });
}
