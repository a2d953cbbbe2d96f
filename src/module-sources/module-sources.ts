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
import { oneLine, sameJson } from "../lib/index.ts";
import { describeProblem, type Json } from "../model/index.ts";
import { MODULE_SOURCES } from "../status/index.ts";
import { normalizeChartLocation } from "../registry/index.ts";
import { BlobStore } from "./disk/blob-store.ts";
import { parseInstallerKeys, type InstallerKeys } from "./trusted-keys.ts";
import { LockConfigMap } from "./lock.ts";
import { SourceController } from "./leader/controller.ts";
import type { SourcesContext, ModuleSourcesOptions } from "./context.ts";
import { filterKeys, SourceList } from "./source-list.ts";
import { LockedModules, type ChangedModules } from "./locked-modules.ts";
import { Standby } from "./standby.ts";

/**
 * Provides modules from registries as a modules directory. Prepares the locked content from disk before the operator reads its
 * modules, without a request to a registry. Then the leader checks the sources, and a standby fetches what the leader locks.
 */
export class ModuleSources {
  readonly #options: ModuleSourcesOptions;
  readonly #context: SourcesContext;
  readonly #lockedModules: LockedModules;
  readonly #blobStore: BlobStore;
  readonly #lock: LockConfigMap;
  #keys: InstallerKeys = { keys: [], problems: [] };
  /** The data of their ConfigMap; null without it. */
  #keysData: Json = null;
  #sources = new SourceList();
  /** Why the ModuleSources cannot be read, or why a missing one does not count as deleted. */
  readonly #problems = new Map<"start" | "watch" | "removal", string>();
  #lastWork: Promise<unknown> = Promise.resolve();
  #isOpen = false;
  #controller: SourceController | undefined;
  #standby: Standby | undefined;

  constructor(options: ModuleSourcesOptions) {
    this.#options = options;
    const { dir, registryModules, unsignedCharts } = options;
    registryModules.describeSources = () => this.#describeState();
    const places = unsignedCharts.flatMap((text) => normalizeChartLocation(text) ?? []);
    this.#blobStore = new BlobStore(dir, places);
    this.#lock = new LockConfigMap(options);
    this.#lockedModules = new LockedModules({
      dir,
      registryModules,
      lock: this.#lock,
      store: this.#blobStore,
    });
    this.#context = {
      options,
      lockedModules: this.#lockedModules,
      blobStore: this.#blobStore,
      lock: this.#lock,
      installerKeys: () => this.#keys,
      currentSources: () => this.#sources,
      setSources: (objects) => {
        this.#sources = this.#sources.withObjects(objects);
        this.#setProblem("start", undefined);
      },
      setProblem: (kind, message) => this.#setProblem(kind, message),
      listSources: () => this.#listSources(),
      runExclusively: (work) => this.#runExclusively(work),
      publish: () => this.#publish(),
      keysForModule: (name) => this.#keysForModule(name),
      rereadKeys: () => this.#rereadKeys(),
    };
  }

  /**
   * Reads ModuleSources, lock and keys, and verifies and unpacks the locked content from disk. Sends nothing to a registry.
   * Throws errors of the API if lock or keys cannot be read: without them, a release could look as if its module were missing.
   * `served` resolves when the API server serves the CRD.
   */
  async prepare(served: Promise<unknown> = Promise.resolve()): Promise<void> {
    this.#standby?.close();
    await this.#runExclusively(async () => {
      if (!this.#isOpen) this.#blobStore.prepareDirectories();
      this.#isOpen = true;
      const reads = [this.#lock.read(), this.#readKeys(), this.#readSources(served)] as const;
      const [content] = await Promise.all(reads);
      await this.#lockedModules.load(content, (name) => this.#keysForModule(name));
      await this.#publish();
    });
  }

  /** As a standby: fetches content that the leader locks, until `prepare` is called again. */
  startStandby(): void {
    this.#standby = new Standby(this.#context);
  }

  /** As the leader, once modules may run: checks sources, locks content, and writes statuses. */
  startLeading(): void {
    this.#controller = new SourceController(this.#context);
  }

  close(): void {
    this.#controller?.close();
    this.#standby?.close();
  }

  /** Lists the ModuleSources on the API server. */
  async #listSources(): Promise<readonly WatchedObject[]> {
    const { client, namespace, clock } = this.#options;
    const objects: WatchedObject[] = [];
    const signal = AbortSignal.timeout(LIST_TIMEOUT_MS);
    const spec = { resource: MODULE_SOURCES, namespace };
    await listObjects(spec, { client, clock, signal, unpaged: false }, (object) => void objects.push(object));
    return objects;
  }

  /** Describes for support which content is in use, and why. Contains no credentials: the specs only name Secrets. */
  #describeState(): Json {
    const sources = [...this.#sources.all()].map(({ name, object: { spec, status }, problem }) => ({
      name,
      problem,
      spec,
      status,
    }));
    const { entries } = this.#lockedModules;
    const contents = [...entries.keys()].map((name) => [name, this.#lockedModules.getContent(name)] as const);
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

  /** Reads the ModuleSources for a start, after the CRD is served. A failure is recorded: the locked content stays in use. */
  async #readSources(served: Promise<unknown>): Promise<void> {
    try {
      const objects = await this.#listSources().catch(async (error: unknown) => {
        if (!isNotFound(error)) throw error;
        await served;
        return this.#listSources();
      });
      this.#context.setSources(objects);
    } catch (error) {
      const why = oneLine(error);
      this.#setProblem("start", `The ModuleSources cannot be read: ${why}`);
      this.#options.logger.warn("ModuleSources cannot be read; what is locked stays in force", {
        error: why,
      });
    }
  }

  /** Records or clears one problem. The state displays the first one, which also blocks removals. */
  #setProblem(kind: "start" | "watch" | "removal", message: string | undefined): void {
    if (message === undefined) this.#problems.delete(kind);
    else this.#problems.set(kind, message);
    const [sourcesProblem] = this.#problems.values();
    const { state } = this.#options;
    if (state.view.sourcesProblem !== sourcesProblem) state.record("factsObserved", { sourcesProblem });
  }

  /** Reads the installer's keys from their ConfigMap, and logs the keys that cannot be used. */
  async #readKeys(): Promise<void> {
    const { client, namespace, keysConfigMap: name, logger, unsignedCharts } = this.#options;
    const target = { resource: CONFIG_MAPS, namespace, name };
    const object = await get<ConfigMap>(client, target).catch(ignoreNotFound);
    // Unsigned charts need no keys.
    this.#keysData = object === undefined ? null : (object.data ?? {});
    const isNeeded = object !== undefined || unsignedCharts.length === 0;
    this.#keys = isNeeded ? parseInstallerKeys(object, name) : { keys: [], problems: [] };
    for (const problem of this.#keys.problems)
      logger.error("A key of module sources cannot be used", { problem: describeProblem(problem) });
  }

  /** Reads the keys again, and verifies all locked content with them if they have changed. Returns whether they have. */
  #rereadKeys(): Promise<boolean> {
    return this.#runExclusively(async () => {
      const before = this.#keysData;
      await this.#readKeys();
      if (sameJson(this.#keysData, before)) return false;
      await this.#lockedModules.verifyAndUnpackAll((name) => this.#keysForModule(name));
      return true;
    });
  }

  /** The keys that may sign content of a module: those of the source that requests it, else of the source in its lock entry. */
  #keysForModule(name: string): InstallerKeys["keys"] {
    const source =
      this.#sources.requested.get(name)?.source ?? this.#lockedModules.entries.get(name)?.source ?? "";
    return filterKeys(this.#keys.keys, this.#sources.get(source)?.spec);
  }

  /** Runs work after all work that was passed here before, whether that failed or not. */
  #runExclusively<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#lastWork.then(work);
    this.#lastWork = result.catch(() => undefined);
    return result;
  }

  /** Writes the modules directory. While ModuleSources cannot be read, no release is purged. */
  #publish(): Promise<ChangedModules> {
    const startProblem = this.#problems.get("start");
    return this.#lockedModules.writeModulesDir(
      this.#sources.requested,
      startProblem === undefined ? [] : [startProblem],
    );
  }
}

/** Longest time for one list of ModuleSources. */
const LIST_TIMEOUT_MS = 30_000;
