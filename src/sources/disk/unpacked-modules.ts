/** Directories with unpacked modules. The garbage collection deletes those whose modification time is long ago. */

import { chmodSync, existsSync, mkdirSync, readdirSync, utimesSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";

import { isPrivateDirectory, systemClock } from "../../base/index.ts";
import { unpackLayer } from "../registry/index.ts";

/** The name of a directory with an unpacked module: the hash of its manifest. */
const MODULE_NAME = /^[0-9a-f]{64}$/;

/**
 * The modules that are unpacked below one directory. Those of an earlier process stay, because most starts need the same
 * ones; before its first use, each is compared with its verified layer.
 */
export class UnpackedModules {
  readonly #dir: string;
  readonly #unpackingByDir = new Map<string, Promise<void>>();
  /** Directories whose content this process has unpacked or compared. */
  readonly #unpackedDirs = new Set<string>();

  constructor(dir: string) {
    this.#dir = dir;
  }

  pathOf(hex: string): string {
    return join(this.#dir, hex);
  }

  /** Creates the directory, readable for all users. */
  createDirectory(): void {
    mkdirSync(this.#dir, { recursive: true });
    chmodSync(this.#dir, 0o755);
  }

  /** Creates the directory, and deletes what it contains besides modules: unfinished ones, and those made from charts. */
  async prepareDirectory(): Promise<void> {
    // In a directory of another user, that user could exchange modules after they were compared.
    if (!isPrivateDirectory(this.#dir)) await rm(this.#dir, { recursive: true, force: true });
    this.createDirectory();
    for (const entry of readdirSync(this.#dir, { withFileTypes: true }))
      if (!MODULE_NAME.test(entry.name) || !entry.isDirectory())
        await rm(join(this.#dir, entry.name), { recursive: true, force: true });
  }

  /**
   * Unpacks a verified layer into a directory, unless this process has done so before. Two callers at the same time wait
   * for one unpacking. Returns the directory.
   */
  async unpack(dir: string, readLayer: () => Promise<Buffer | string>): Promise<string> {
    const unpacking = this.#unpackingByDir.get(dir) ?? this.#unpackOnce(dir, readLayer);
    this.#unpackingByDir.set(dir, unpacking);
    await unpacking.finally(() => this.#unpackingByDir.delete(dir));
    return dir;
  }

  /** Unpacks a layer with read-only files, and marks the directory as needed; only marks it if it was unpacked before. */
  async #unpackOnce(dir: string, readLayer: () => Promise<Buffer | string>): Promise<void> {
    // The first time, `unpackLayer` compares a directory that an earlier process has left with the layer.
    const isVerified = this.#unpackedDirs.has(dir) && existsSync(dir);
    if (!isVerified) await unpackLayer(await readLayer(), dir, true);
    markNeeded(dir);
    this.#unpackedDirs.add(dir);
  }
}

/** Makes an existing directory count as needed from now on, so that the garbage collection keeps it. False if there is none. */
export function markNeeded(dir: string): boolean {
  const seconds = systemClock.now() / 1000;
  if (!existsSync(dir)) return false;
  utimesSync(dir, seconds, seconds);
  return true;
}
