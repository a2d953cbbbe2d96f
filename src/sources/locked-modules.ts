/**
 * The locked modules and their content on disk. The lock records for each module the content that every process uses. The
 * operator reads modules of registries from the modules directory, which has a link to the content of each.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";

import { mapInParallel, oneLine } from "../base/index.ts";
import type { ModuleOrigin, Problem } from "../base/model/index.ts";
import type { RegistryModules } from "../modules/index.ts";
import { CannotVerifyError, NotVerifiedError, type Signer } from "./registry/index.ts";
import { areLinksIntact, writeModuleLinks, type ModuleLink } from "./disk/module-links.ts";
import { NotStoredError } from "./disk/content.ts";
import type { BlobStore } from "./disk/blob-store.ts";
import type { LockContent, LockConfigMap } from "./lock.ts";
import type { LockEntry, ModuleRequest } from "./types.ts";

/** A module that a source names, and what the source requests for it. */
export interface RequestedModule {
  readonly source: string;
  readonly request: ModuleRequest;
}

/** The unpacked content of a locked module, or why it cannot be used. */
export interface LockedContent {
  readonly digest: string;
  /** Undefined if there is a problem. */
  readonly dir: string | undefined;
  readonly problem:
    | { readonly reason: "SourceUnavailable" | "NotTrusted"; readonly message: string }
    | undefined;
}

/** The names of modules whose files have changed; `all` if the list of modules or a flag has changed. */
export type ChangedModules = ReadonlySet<string> | "all";

const PARALLEL_MODULES = 4;

interface LockedModulesOptions {
  readonly dir: string;
  /** Written by `writeModulesDir`, read when the operator reads its modules. */
  readonly registryModules: RegistryModules;
  readonly lock: LockConfigMap;
  readonly store: BlobStore;
  /** The keys that may sign content of a module. */
  readonly listKeys: (module: string) => readonly Signer[];
  /** Content in use was deleted from the disk, and has to be fetched again. */
  readonly onContentLost: () => void;
}

/** Keeps the content of each locked module, and writes the modules directory. */
export class LockedModules {
  readonly #options: LockedModulesOptions;
  readonly #contents = new Map<string, LockedContent>();
  /** Error messages of modules that are requested and not locked. */
  readonly #errorsBeforeLock = new Map<string, string>();

  /** The list of modules and the purge blockers at the last `writeModulesDir`, as JSON. */
  #publishedList = "";
  /** What the last `writeModulesDir` has written. */
  #publishedLinks: readonly ModuleLink[] = [];

  constructor(options: LockedModulesOptions) {
    this.#options = options;
  }

  get #modulesDir(): string {
    return join(this.#options.dir, "modules");
  }

  /** Directories of modules without content. */
  get #emptyDirs(): string {
    return join(this.#options.dir, "absent");
  }

  get #lock(): LockConfigMap {
    return this.#options.lock;
  }

  /** The content of a locked module; undefined if the module is not locked. */
  getContent(name: string): LockedContent | undefined {
    return this.#contents.get(name);
  }

  /** The digests that the lock names, including those to which a failed update rolls back. */
  listDigests(): string[] {
    return [...this.#lock.entries.values()].flatMap(({ digest, previous }) =>
      previous === undefined ? [digest] : [digest, previous.digest],
    );
  }

  /**
   * Replaces the lock by what the ConfigMap contains, then verifies and unpacks the locked content from disk.
   */
  async load(content: LockContent): Promise<void> {
    this.#options.store.restoreDirectories();
    this.#lock.load(content);
    for (const name of this.#contents.keys()) if (!this.#lock.entries.has(name)) this.#contents.delete(name);
    await this.verifyAndUnpackAll();
  }

  /** Verifies the content of all locked modules with the keys as they are now, and unpacks content that is not unpacked yet. */
  async verifyAndUnpackAll(): Promise<void> {
    await mapInParallel(PARALLEL_MODULES, [...this.#lock.entries.keys()], (name) =>
      this.verifyAndUnpack(name),
    );
  }

  /** Verifies and unpacks the content of one locked module, after it was fetched. */
  async verifyAndUnpack(name: string): Promise<void> {
    const entry = this.#lock.entries.get(name);
    if (entry !== undefined) this.#contents.set(name, await this.#prepareContent(name, entry));
  }

  /**
   * Locks content for a module. Writes the ConfigMap first, so that after a crash the next process uses the new content.
   * `unpackedDir` contains the content; without it, the entry names the same content as before. Throws errors of the API.
   */
  async writeEntry(name: string, entry: LockEntry, unpackedDir?: string): Promise<void> {
    await this.#lock.writeEntry(name, entry);
    if (unpackedDir !== undefined)
      this.#contents.set(name, { digest: entry.digest, dir: unpackedDir, problem: undefined });
    this.#errorsBeforeLock.delete(name);
  }

  /** Deletes the entry of a module from the lock. Throws errors of the API. */
  async deleteEntry(name: string): Promise<void> {
    await this.#lock.writeEntry(name, undefined);
    this.#contents.delete(name);
  }

  /** Records why a module that is not locked yet has no content. */
  recordError(name: string, message: string): void {
    this.#errorsBeforeLock.set(name, message);
  }

  /** Whether the disk still has all that the last `writeModulesDir` has written. */
  get isIntact(): boolean {
    const { store } = this.#options;
    return store.hasDirectories && areLinksIntact(this.#modulesDir, this.#emptyDirs, this.#publishedLinks);
  }

  /** Unpacks content again whose directory was deleted. If the disk cannot restore it, the content has a problem from now on. */
  async #restoreContents(): Promise<void> {
    this.#options.store.restoreDirectories();
    const deleted = [...this.#contents].filter(([, { dir }]) => dir !== undefined && !existsSync(dir));
    for (const [name] of deleted) await this.verifyAndUnpack(name);
    if (deleted.some(([name]) => this.#contents.get(name)?.dir === undefined)) this.#options.onContentLost();
  }

  /**
   * Writes the modules directory and the origins of its modules: from which source and content a module comes, and why it
   * cannot be used. Modules that are requested but not locked yet have no content. Returns which modules have changed since
   * the last call. `purgeBlocker`: why no release is purged now.
   */
  async writeModulesDir(
    requested: ReadonlyMap<string, RequestedModule>,
    purgeBlocker: string | undefined,
  ): Promise<ChangedModules> {
    const { registryModules } = this.#options;
    const modulesDir = this.#modulesDir;
    await this.#restoreContents();
    const unlocked = [...requested].filter(([name]) => !this.#lock.entries.has(name));
    const settings = [
      ...this.#lock.entries,
      ...unlocked.map(([name, { request }]) => [name, request] as const),
    ];
    const links = settings.map(([name, { order, enabled }]): ModuleLink => {
      return { name, order, enabled, content: this.#contents.get(name)?.dir };
    });
    await writeModuleLinks(modulesDir, this.#emptyDirs, links);
    const before = registryModules.origins;
    registryModules.origins = this.#buildOrigins(requested, before);
    registryModules.purgeBlockers = [
      ...(purgeBlocker === undefined ? [] : [purgeBlocker]),
      ...this.#listPurgeBlockers(modulesDir, registryModules.origins),
    ];
    registryModules.dir = modulesDir;
    return this.#findChangedModules(links, before, registryModules);
  }

  /**
   * Builds the origins of all locked and requested modules. An origin that equals the one `before` stays the same object: a
   * module is read again only if its origin is another object.
   */
  #buildOrigins(
    requested: ReadonlyMap<string, RequestedModule>,
    before: ReadonlyMap<string, ModuleOrigin>,
  ): Map<string, ModuleOrigin> {
    const origins = new Map<string, ModuleOrigin>();
    for (const [name, module] of requested)
      if (!this.#lock.entries.has(name)) origins.set(name, this.#buildUnlockedOrigin(name, module));
    for (const [name, entry] of this.#lock.entries)
      origins.set(name, this.#buildOrigin(name, entry, requested.has(name)));
    for (const [name, origin] of origins) {
      const earlier = before.get(name);
      if (earlier !== undefined && isDeepStrictEqual(earlier, origin)) origins.set(name, earlier);
    }
    return origins;
  }

  /** Returns the modules that have another origin or directory than at the last call; "all" if the list itself has changed. */
  #findChangedModules(
    links: readonly ModuleLink[],
    before: ReadonlyMap<string, ModuleOrigin>,
    { origins: now, purgeBlockers }: RegistryModules,
  ): ChangedModules {
    const rows = links.map((link) => [link.name, link.order, link.enabled, link.content === undefined]);
    const published = JSON.stringify([rows, purgeBlockers]);
    const isSameList = published === this.#publishedList;
    this.#publishedList = published;
    // The same chart with other settings has another directory.
    const [dirsBefore, dirs] = [dirsByName(this.#publishedLinks), dirsByName(links)];
    this.#publishedLinks = links;
    const isChanged = (name: string): boolean =>
      before.get(name) !== now.get(name) || dirsBefore.get(name) !== dirs.get(name);
    const names = [...now.keys()].filter(isChanged);
    // Discovery enables and disables modules for the whole list.
    const isRemovalChanged = names.some((name) => before.get(name)?.removed !== now.get(name)?.removed);
    return isSameList && !isRemovalChanged ? new Set(names) : "all";
  }

  /** Reasons not to purge releases: a module whose content or lock entry is unreadable looks deleted, but its release must stay. */
  #listPurgeBlockers(modulesDir: string, origins: ReadonlyMap<string, ModuleOrigin>): string[] {
    const faulty = [...this.#lock.entries.keys()].filter((name) => origins.get(name)?.problem !== undefined);
    return [...faulty, ...this.#lock.damaged].map(
      (name) => `${join(modulesDir, name)}: the content of module ${name} is not available`,
    );
  }

  /**
   * Where a locked module comes from, and why its content cannot be used (`retriedAs`: the next check fetches it again); the
   * status and messages display it. A removed module that a source names again does not count as removed. One that stays removed has
   * no problem: without its content, it is an empty module, which discovery disables and deletes without hooks.
   */
  #buildOrigin(name: string, entry: LockEntry, isRequested: boolean): ModuleOrigin {
    const { source, version, digest, verifiedBy, removed = false } = entry;
    const isRemoved = removed && !isRequested;
    const failure = isRemoved ? undefined : this.#contents.get(name)?.problem;
    const file = `ModuleSource ${source}`;
    const problem: Problem | undefined = failure && {
      file,
      key: `modules.${name}`,
      message: failure.message,
      ...(failure.reason === "SourceUnavailable" ? { retriedAs: failure.reason } : {}),
    };
    return { source, version, digest, verifiedBy, removed: isRemoved, problem };
  }

  /** The origin of a module that is not locked yet. Its problem is expected until the first check has ended. */
  #buildUnlockedOrigin(name: string, { source }: RequestedModule): ModuleOrigin {
    const error = this.#errorsBeforeLock.get(name);
    const problem: Problem = {
      file: `ModuleSource ${source}`,
      key: `modules.${name}`,
      message: error ?? "its content is not fetched yet",
      retriedAs: "SourceUnavailable",
      ...(error === undefined ? { isExpected: true } : {}),
    };
    const nothing = { version: undefined, digest: undefined, verifiedBy: undefined };
    return { source, ...nothing, removed: false, problem };
  }

  /** Verifies and unpacks the content of a locked module from disk, and describes why that fails. Never throws. */
  async #prepareContent(name: string, entry: LockEntry): Promise<LockedContent> {
    const { version, digest } = entry;
    const { store, listKeys } = this.#options;
    const withProblem = (
      reason: NonNullable<LockedContent["problem"]>["reason"],
      message: string,
    ): LockedContent => ({
      digest,
      dir: undefined,
      problem: { reason, message: `version ${version} ${message}` },
    });
    try {
      const found = await store.verifyContent({ ...entry, name }, listKeys(name));
      return { digest, dir: await store.unpack(found), problem: undefined };
    } catch (error) {
      if (error instanceof NotStoredError || error instanceof CannotVerifyError)
        return withProblem("SourceUnavailable", "is locked and not on disk, and is fetched again");
      return error instanceof NotVerifiedError
        ? withProblem("NotTrusted", `is locked, but not trusted: ${oneLine(error)}`)
        : withProblem("SourceUnavailable", `cannot be unpacked: ${oneLine(error)}`);
    }
  }
}

function dirsByName(links: readonly ModuleLink[]): ReadonlyMap<string, string | undefined> {
  return new Map(links.map(({ name, content }) => [name, content]));
}
