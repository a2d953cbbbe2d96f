/** The locked modules and their content on disk: what the operator reads is exactly this. */

import { join } from "node:path";

import { inParallel, oneLine, sameJson } from "../lib/index.ts";
import type { Json, ModuleOrigin, Problem } from "../model/index.ts";
import type { SuppliedModules } from "../modules/index.ts";
import { CannotVerifyError, NotVerifiedError, type Signer } from "../registry/index.ts";
import { writeLinks, type Link } from "./disk/module-links.ts";
import { NotStoredError, RefusedError } from "./disk/content.ts";
import type { BlobStore } from "./disk/blob-store.ts";
import type { LockContent, LockFile } from "./lock.ts";
import type { Lock, LockEntry, ModuleRequest } from "./types.ts";

/** What a module that is not locked yet has: the source that names it. */
export interface RequestedModule {
  readonly source: string;
  readonly request: ModuleRequest;
}

/** The content of a locked digest, or why it may not be used. */
export interface Content {
  readonly digest: string;
  /** Undefined if there is a problem. */
  readonly dir: string | undefined;
  readonly problem:
    | { readonly reason: "SourceUnavailable" | "NotTrusted"; readonly message: string }
    | undefined;
}

/** The names of modules whose files are other ones now; `all` if the list of modules or a flag has changed. */
export type Moved = ReadonlySet<string> | "all";

const PARALLEL = 4;

interface StockOptions {
  readonly dir: string;
  /** Changed by `publish`. */
  readonly supplied: SuppliedModules;
  readonly lock: LockFile;
  readonly store: BlobStore;
}

/** Keeps the lock and the content of each locked module, and writes the modules directory. */
export class Stock {
  readonly #options: StockOptions;
  #lock: LockContent = { entries: new Map(), crdUid: undefined, damaged: [] };
  readonly #contents = new Map<string, Content>();
  /** Errors of modules that are requested and not locked, for people. */
  readonly #firstErrors = new Map<string, string>();

  /** The list of modules and the holds that were published last, as text. */
  #published = "";
  /** The directories that were published last: of a chart, another one may have the same digest. */
  #dirs: ReadonlyMap<string, string | undefined> = new Map();

  constructor(options: StockOptions) {
    this.#options = options;
  }

  get entries(): Lock {
    return this.#lock.entries;
  }

  get crdUid(): string | undefined {
    return this.#lock.crdUid;
  }

  content(name: string): Content | undefined {
    return this.#contents.get(name);
  }

  /** The digests that the lock names, earlier ones included. */
  digests(): string[] {
    return [...this.entries.values()].flatMap(({ digest, previous }) =>
      [digest, previous?.digest ?? []].flat(),
    );
  }

  /** Takes over what the ConfigMap contains, and stages it from disk. `keysOf` gives the keys that count for a module. */
  async load(content: LockContent, keysOf: (name: string) => readonly Signer[]): Promise<void> {
    this.#lock = content;
    for (const name of this.#contents.keys()) if (!this.entries.has(name)) this.#contents.delete(name);
    await this.stageAll(keysOf);
  }

  /** Verifies all locked modules with these keys, and unpacks what is not unpacked yet. */
  async stageAll(keysOf: (name: string) => readonly Signer[]): Promise<void> {
    await inParallel(PARALLEL, [...this.entries], async ([name, entry]) => {
      this.#contents.set(name, await this.#stage(name, entry, keysOf(name)));
    });
  }

  /** Stages one locked module again, after what it lacks was fetched. */
  async stage(name: string, keys: readonly Signer[]): Promise<void> {
    const entry = this.entries.get(name);
    if (entry !== undefined) this.#contents.set(name, await this.#stage(name, entry, keys));
  }

  /** Locks a module: the ConfigMap first, so that after a crash the next process uses the new content. Throws errors of the API. */
  async lock(name: string, entry: LockEntry, dir?: string): Promise<void> {
    await this.#options.lock.write(name, entry);
    this.#setEntry(name, entry);
    if (dir !== undefined) this.#contents.set(name, { digest: entry.digest, dir, problem: undefined });
    this.#firstErrors.delete(name);
  }

  /** Forgets a module. Throws errors of the API. */
  async forget(name: string): Promise<void> {
    await this.#options.lock.write(name, undefined);
    this.#setEntry(name, undefined);
    this.#contents.delete(name);
  }

  /** Records the CRD whose objects the lock follows. Throws errors of the API. */
  async followCrd(uid: string): Promise<void> {
    await this.#options.lock.writeCrd(uid);
    this.#lock = { ...this.#lock, crdUid: uid };
  }

  /** Records why a module that is not locked yet has no content. */
  recordError(name: string, message: string): void {
    this.#firstErrors.set(name, message);
  }

  /** Writes the modules directory, and returns what has changed since the last time. */
  async publish(requested: ReadonlyMap<string, RequestedModule>, holds: readonly string[]): Promise<Moved> {
    const { dir, supplied } = this.#options;
    const modulesDir = join(dir, "modules");
    const fresh = [...requested].filter(([name]) => !this.entries.has(name));
    const links: Link[] = [
      ...[...this.entries].map(([name, { order, enabled }]) => ({
        name,
        order,
        enabled,
        content: this.#contents.get(name)?.dir,
      })),
      ...fresh.map(([name, { request }]) => ({
        name,
        order: request.order,
        enabled: request.enabled,
        content: undefined,
      })),
    ];
    await writeLinks(modulesDir, join(dir, "absent"), links);
    const origins = new Map<string, ModuleOrigin>([
      ...[...this.entries].map(
        ([name, entry]) => [name, this.#originOf(name, entry, requested.has(name))] as const,
      ),
      ...fresh.map(([name, each]) => [name, this.#originOfRequest(name, each)] as const),
    ]);
    const before = supplied.origins;
    supplied.origins = new Map([...origins].map(([name, origin]) => [name, same(before.get(name), origin)]));
    supplied.holds = [...holds, ...this.#ownHolds(modulesDir)];
    supplied.dir = modulesDir;
    return this.#moved(links, before, supplied);
  }

  #moved(
    links: readonly Link[],
    before: ReadonlyMap<string, ModuleOrigin>,
    { origins: now, holds }: SuppliedModules,
  ): Moved {
    const rows = links.map(({ name, order, enabled, content }) => [
      name,
      order,
      enabled,
      content === undefined,
    ]);
    const published = JSON.stringify([rows, holds]);
    const isSameList = published === this.#published;
    this.#published = published;
    const dirs = this.#dirs;
    this.#dirs = new Map(links.map(({ name, content }) => [name, content]));
    const names = [...now]
      .filter(([name, origin]) => before.get(name) !== origin || dirs.get(name) !== this.#dirs.get(name))
      .map(([name]) => name);
    const switched = names.some((name) => before.get(name)?.removed !== now.get(name)?.removed);
    return isSameList && !switched ? new Set(names) : "all";
  }

  /** Reasons not to purge: what is locked still exists, even if it cannot be read now. */
  #ownHolds(modulesDir: string): string[] {
    const faulty = [...this.#contents]
      .filter(([, { problem }]) => problem !== undefined)
      .map(([name]) => name);
    return [...faulty, ...this.#lock.damaged].map(
      (name) => `${join(modulesDir, name)}: the content of module ${name} is not available`,
    );
  }

  #originOf(name: string, entry: LockEntry, isRequested: boolean): ModuleOrigin {
    const { source, version, digest, verifiedBy, removed = false } = entry;
    const failure = this.#contents.get(name)?.problem;
    const file = `ModuleSource ${source}`;
    const problem: Problem | undefined = failure && {
      file,
      key: `modules.${name}`,
      message: failure.message,
      ...(failure.reason === "SourceUnavailable" ? { retriedAs: failure.reason } : {}),
    };
    return { source, version, digest, verifiedBy, removed: removed && !isRequested, problem };
  }

  #originOfRequest(name: string, { source }: RequestedModule): ModuleOrigin {
    const error = this.#firstErrors.get(name);
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

  #setEntry(name: string, entry: LockEntry | undefined): void {
    const entries = new Map(this.#lock.entries);
    if (entry === undefined) entries.delete(name);
    else entries.set(name, entry);
    this.#lock = { ...this.#lock, entries };
  }

  /** The content of a locked module, as far as the disk has it. */
  async #stage(name: string, entry: LockEntry, keys: readonly Signer[]): Promise<Content> {
    const { version, digest, chart } = entry;
    const { store } = this.#options;
    const without = (reason: NonNullable<Content["problem"]>["reason"], message: string): Content => ({
      digest,
      dir: undefined,
      problem: { reason, message },
    });
    if (keys.length === 0 && chart?.unsigned !== true)
      return without(
        "NotTrusted",
        `version ${version} is locked, but no key of the installer counts for its source (--source-keys)`,
      );
    try {
      const found = await store.verify({ ...entry, name }, keys);
      return { digest, dir: await store.unpack(found), problem: undefined };
    } catch (error) {
      if (error instanceof NotStoredError || error instanceof CannotVerifyError)
        return without(
          "SourceUnavailable",
          `version ${version} is locked and not on disk, and is fetched again`,
        );
      const isRefused = error instanceof NotVerifiedError || error instanceof RefusedError;
      return isRefused
        ? without(
            "NotTrusted",
            `version ${version} is locked, but no key of the installer vouches for it: ${oneLine(error)}`,
          )
        : without("SourceUnavailable", `version ${version} cannot be unpacked: ${oneLine(error)}`);
    }
  }
}

/** The earlier origin if it says the same: files are read again only if it is another object. */
function same(before: ModuleOrigin | undefined, now: ModuleOrigin): ModuleOrigin {
  return before !== undefined && sameJson(jsonOf(before), jsonOf(now)) ? before : now;
}

const jsonOf = (origin: ModuleOrigin): Json => JSON.parse(JSON.stringify(origin)) as Json;
