/** Modules from registries: content that ModuleSources name becomes a modules directory (docs/guides/module-sources.md). */

import {
  CONFIG_MAPS,
  get,
  ignoreNotFound,
  isNotFound,
  listObjects,
  type ConfigMap,
  type WatchedObject,
} from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import { describeProblem, type Json } from "../model/index.ts";
import { MODULE_SOURCES } from "../status/index.ts";
import { chartsPlace } from "../registry/index.ts";
import { BlobStore } from "./disk/blob-store.ts";
import { readKeys, type Keys } from "./trusted-keys.ts";
import { LockFile } from "./lock.ts";
import { Leader } from "./leader/controller.ts";
import type { Shared, SupplyOptions } from "./context.ts";
import { keysFor, Sources } from "./source-list.ts";
import { Stock, type Moved } from "./locked-modules.ts";
import { Follower } from "./standby.ts";

/**
 * Prepares what is locked from disk before anything is read, without a request to a registry. Then the leader checks the
 * sources, and a follower fetches what the leader locks.
 */
export class Supply {
  readonly #options: SupplyOptions;
  readonly #shared: Shared;
  readonly #stock: Stock;
  readonly #store: BlobStore;
  readonly #lock: LockFile;
  #keys: Keys = { keys: [], problems: [] };
  #sources = new Sources();
  /** Why the ModuleSources cannot be read, or why a missing one does not count as deleted. */
  readonly #problems = new Map<"start" | "watch" | "removal", string>();
  #working: Promise<unknown> = Promise.resolve();
  #isOpen = false;
  #leader: Leader | undefined;
  #follower: Follower | undefined;

  constructor(options: SupplyOptions) {
    this.#options = options;
    const { dir, supplied, unsignedCharts } = options;
    supplied.report = () => this.#report();
    const places = unsignedCharts.flatMap((text) => chartsPlace(text) ?? []);
    this.#store = new BlobStore(dir, places);
    this.#lock = new LockFile(options);
    this.#stock = new Stock({ dir, supplied, lock: this.#lock, store: this.#store });
    this.#shared = {
      options,
      stock: this.#stock,
      store: this.#store,
      lock: this.#lock,
      keys: () => this.#keys,
      sources: () => this.#sources,
      setSources: (objects) => {
        this.#sources = this.#sources.next(objects);
        this.#setProblem("start", undefined);
      },
      setProblem: (of, why) => this.#setProblem(of, why),
      list: () => this.#list(),
      exclusively: (work) => this.#exclusively(work),
      publish: () => this.#publish(),
      keysOf: (name) => this.#keysOf(name),
      rereadKeys: () => this.#rereadKeys(),
    };
  }

  /**
   * Reads ModuleSources, lock and keys, and stages what is locked from disk. Sends nothing to a registry. Throws errors of
   * the API if lock or keys cannot be read: without them, a release could look as if its module were missing. `served`
   * resolves when the CRD is there.
   */
  async prepare(served: Promise<unknown> = Promise.resolve()): Promise<void> {
    this.#follower?.close();
    await this.#exclusively(async () => {
      if (!this.#isOpen) await this.#store.open();
      this.#isOpen = true;
      const reads = [this.#lock.read(), this.#readKeys(), this.#readSources(served)] as const;
      const [content] = await Promise.all(reads);
      await this.#stock.load(content, (name) => this.#keysOf(name));
      await this.#publish();
    });
  }

  /** As a follower: fetches what the leader locks, until `prepare` is called again. */
  follow(): void {
    this.#follower = new Follower(this.#shared);
  }

  /** As the leader, once modules may run: checks sources, locks, and writes statuses. */
  lead(): void {
    this.#leader = new Leader(this.#shared);
  }

  close(): void {
    this.#leader?.close();
    this.#follower?.close();
  }

  async #list(): Promise<readonly WatchedObject[]> {
    const { client, namespace, clock } = this.#options;
    const objects: WatchedObject[] = [];
    const signal = AbortSignal.timeout(LIST_MS);
    const spec = { resource: MODULE_SOURCES, namespace };
    await listObjects(spec, { client, clock, signal, unpaged: false }, (object) => void objects.push(object));
    return objects;
  }

  /** Everything that explains which content is in force; credentials are in Secrets, which it only names. */
  #report(): Json {
    const sources = [...this.#sources.all()].map(({ name, object: { spec, status }, problem }) => ({
      name,
      problem,
      spec,
      status,
    }));
    const { entries } = this.#stock;
    const contents = [...entries.keys()].map((name) => [name, this.#stock.content(name)] as const);
    return JSON.parse(
      JSON.stringify({
        faults: Object.fromEntries(this.#problems),
        keys: this.#keys.keys.map(({ source, hint }) => `${source} ${hint}`),
        problems: this.#keys.problems.map(describeProblem),
        sources,
        lock: { name: this.#lock.name, entries: Object.fromEntries(entries) },
        contents: Object.fromEntries(contents),
      }),
    ) as Json;
  }

  async #readSources(served: Promise<unknown>): Promise<void> {
    try {
      const objects = await this.#list().catch(async (error: unknown) => {
        if (!isNotFound(error)) throw error;
        await served;
        return this.#list();
      });
      this.#shared.setSources(objects);
    } catch (error) {
      const why = oneLine(error);
      this.#setProblem("start", `The ModuleSources cannot be read: ${why}`);
      this.#options.logger.warn("ModuleSources cannot be read; what is locked stays in force", {
        error: why,
      });
    }
  }

  #setProblem(of: "start" | "watch" | "removal", why: string | undefined): void {
    if (why === undefined) this.#problems.delete(of);
    else this.#problems.set(of, why);
    const [sourcesProblem] = this.#problems.values();
    const { state } = this.#options;
    if (state.view.sourcesProblem !== sourcesProblem) state.record("observed", { sourcesProblem });
  }

  async #readKeys(): Promise<void> {
    const { client, namespace, keys: name, logger, unsignedCharts } = this.#options;
    const target = { resource: CONFIG_MAPS, namespace, name };
    const object = await get<ConfigMap>(client, target).catch(ignoreNotFound);
    // Unsigned charts need no keys.
    const isNeeded = object !== undefined || unsignedCharts.length === 0;
    this.#keys = isNeeded ? readKeys(object, name) : { keys: [], problems: [] };
    for (const problem of this.#keys.problems)
      logger.error("A key of module sources cannot be used", { problem: describeProblem(problem) });
  }

  async #rereadKeys(): Promise<void> {
    await this.#exclusively(async () => {
      const before = this.#keys.keys.map(({ hint, source }) => `${source} ${hint}`).join();
      await this.#readKeys();
      if (this.#keys.keys.map(({ hint, source }) => `${source} ${hint}`).join() === before) return;
      await this.#stock.stageAll((name) => this.#keysOf(name));
    });
  }

  #keysOf(name: string): Keys["keys"] {
    const source = this.#sources.requested.get(name)?.source ?? this.#stock.entries.get(name)?.source ?? "";
    return keysFor(this.#keys.keys, this.#sources.get(source)?.spec);
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#working.then(work);
    this.#working = done.catch(() => undefined);
    return done;
  }

  #publish(): Promise<Moved> {
    const unread = this.#problems.get("start");
    return this.#stock.publish(this.#sources.requested, unread === undefined ? [] : [unread]);
  }
}

/** Longest time for one list of ModuleSources. */
const LIST_MS = 30_000;
