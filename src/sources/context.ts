/**
 * What the leader and a standby operator share to provide modules from registries. A ModuleSource names a registry and modules
 * of it; the lock, a ConfigMap, records which content (version and digest) each module has.
 */

import {
  CONFIG_MAPS,
  get,
  ignoreNotFound,
  isNotFound,
  listObjects,
  ObjectStore,
  toNamedSpec,
  toStoredVersion,
  type ConfigMap,
  type KubeAccess,
  type WatchedObject,
  type WatchHub,
} from "../kube/index.ts";
import { oneLine, sameJson, type Failures } from "../base/index.ts";
import type { Releases } from "../helm/index.ts";
import type { HookLoader } from "../hooks/index.ts";
import type { Metrics, Report } from "../report/metrics/index.ts";
import { describeProblem, type Json } from "../base/model/index.ts";
import type { RegistryModules, TreeReader } from "../modules/index.ts";
import { normalizeChartLocation, type Signer } from "./registry/index.ts";
import { serialize } from "../runtime/index.ts";
import type { State } from "../engine/state/index.ts";
import { MODULE_SOURCES, type Explanation, type StatusMirror } from "../report/index.ts";
import { BlobStore } from "./disk/blob-store.ts";
import { ContentFetcher } from "./fetch/fetch-content.ts";
import { LockConfigMap } from "./lock.ts";
import { CheckReporter } from "./leader/reporter.ts";
import { LockedModules, type ChangedModules } from "./locked-modules.ts";
import { identifySpec, SourceList, type SourceEntry } from "./source-list.ts";
import { filterKeys, parseInstallerKeys, type InstallerKeys } from "./trusted-keys.ts";

/** What the operator gives to the package, and its settings. */
export interface ModuleSourcesOptions extends KubeAccess {
  readonly hub: WatchHub;
  readonly failures: Failures;
  readonly state: State;
  /** Explains the state and the queues of this moment. */
  readonly explain: () => Explanation;
  readonly metrics: Metrics;
  readonly report: Pick<Report, "announce">;
  /** Writes the statuses of ModuleSources. */
  readonly statuses: Pick<StatusMirror, "setSourceStatus" | "watchSources">;
  /** The operator's time zone, in which windows open; undefined = that of the system. */
  readonly timeZone: string | undefined;
  /** Proxies for registries. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly registryModules: RegistryModules;
  readonly reader: Pick<TreeReader, "readModulesDir">;
  /** Runs a hook file with `--config`. */
  readonly loadHook: HookLoader["load"];
  readonly releases: Pick<Releases, "renderManifests"> & {
    readonly observed: Pick<Releases["observed"], "getArtifactDigest" | "ownership">;
  };
  readonly serverVersion: () => Promise<string>;
  /** Name of the operator's ConfigMap. */
  readonly configMap: string;
  /** Directory for blobs, unpacked content and the modules directory. */
  readonly dir: string;
  /** Name of the ConfigMap with keys. */
  readonly keysConfigMap: string;
  /** Most bytes of blobs on disk. */
  readonly maxBytes: number;
  /** Registries and repositories whose charts may be unsigned. */
  readonly unsignedCharts: readonly string[];
  /** Longest time of a request to a registry; tests shorten it. */
  readonly registryTimeoutMs?: number | undefined;
}

/** Longest time for one list of ModuleSources. */
const LIST_TIMEOUT_MS = 30_000;

/** The lock, the content on disk, the installer's keys and the ModuleSources, which leader and standby read and change. */
export class SourcesContext {
  readonly options: ModuleSourcesOptions;
  readonly blobStore: BlobStore;
  readonly fetcher: ContentFetcher;
  readonly lock: LockConfigMap;
  readonly lockedModules: LockedModules;
  readonly reporter: CheckReporter;
  /** Fetches content again that was deleted from the disk. The leader sets it. */
  onContentLost: () => void = () => {};
  #closed = false;
  #keys: InstallerKeys = { keys: [], problems: [] };
  /** The data of their ConfigMap; null without it, and undefined before it was read. */
  #keysData: Json | undefined;
  #sources = new SourceList();
  /** Why the ModuleSources cannot be read, or why a missing one does not count as deleted. */
  readonly #problems = new Map<"start" | "watch" | "removal", string>();
  /** Runs work that reads or changes the lock, after all such work that was started before, whether that failed or not. */
  readonly runExclusively = serialize();

  constructor(options: ModuleSourcesOptions) {
    const { dir, unsignedCharts } = options;
    this.options = options;
    this.blobStore = new BlobStore(
      dir,
      unsignedCharts.flatMap((text) => normalizeChartLocation(text) ?? []),
      () => this.#keys.problems,
    );
    this.fetcher = new ContentFetcher(options, this.blobStore);
    this.lock = new LockConfigMap(options);
    this.reporter = new CheckReporter(options);
    const listKeys = (module: string): readonly Signer[] => this.listKeys(module);
    const onContentLost = (): void => this.onContentLost();
    const { lock, blobStore: store } = this;
    this.lockedModules = new LockedModules({ ...options, lock, store, listKeys, onContentLost });
  }

  /** From now on, no work changes the lock. */
  close(): void {
    this.#closed = true;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** All keys and identities of the installer. */
  get installerKeys(): readonly Signer[] {
    return this.#keys.keys;
  }

  get sources(): SourceList {
    return this.#sources;
  }

  setSources(objects: readonly WatchedObject[]): void {
    this.#sources = this.#sources.withObjects(objects);
    this.setProblem("start", undefined);
  }

  /** Lists the ModuleSources on the API server. */
  async listSources(): Promise<readonly WatchedObject[]> {
    const { client, namespace, clock } = this.options;
    const objects: WatchedObject[] = [];
    const signal = AbortSignal.timeout(LIST_TIMEOUT_MS);
    const spec = { resource: MODULE_SOURCES, namespace };
    await listObjects(spec, { client, clock, signal, unpaged: false }, (object) => void objects.push(object));
    return objects;
  }

  /**
   * Reads the ModuleSources for a start, after the CRD is served. A failure is recorded: the locked content stays in use.
   * `served` resolves when the API server serves the CRD.
   */
  async readSources(served: Promise<unknown>): Promise<void> {
    try {
      const objects = await this.listSources().catch(async (error: unknown) => {
        if (!isNotFound(error)) throw error;
        await served;
        return this.listSources();
      });
      this.setSources(objects);
    } catch (error) {
      const why = oneLine(error);
      this.setProblem("start", `The ModuleSources cannot be read: ${why}`);
      this.options.logger.warn("ModuleSources cannot be read; what is locked stays in force", { error: why });
    }
  }

  /**
   * Records or clears why the ModuleSources cannot be read, or why a missing one does not count as deleted. The state
   * displays the first problem, which also blocks removals.
   */
  setProblem(kind: "start" | "watch" | "removal", message: string | undefined): void {
    if (message === undefined) this.#problems.delete(kind);
    else this.#problems.set(kind, message);
    const [sourcesProblem] = this.#problems.values();
    const { state } = this.options;
    state.record("sourcesProblemChanged", sourcesProblem);
  }

  /** Reads the installer's keys from their ConfigMap; returns whether they have changed. Then logs the keys that cannot be used. */
  async readKeys(): Promise<boolean> {
    const { client, namespace, keysConfigMap: name, logger, unsignedCharts } = this.options;
    const target = { resource: CONFIG_MAPS, namespace, name };
    const object = await get<ConfigMap>(client, target).catch(ignoreNotFound);
    const data = object === undefined ? null : (object.data ?? {});
    if (this.#keysData !== undefined && sameJson(data, this.#keysData)) return false;
    this.#keysData = data;
    // An installer who allows unsigned charts may have no keys: then a missing ConfigMap is no problem.
    const mayBeMissing = unsignedCharts.length > 0;
    this.#keys =
      object === undefined && mayBeMissing ? { keys: [], problems: [] } : parseInstallerKeys(object, name);
    for (const problem of this.#keys.problems)
      logger.error("A key of module sources cannot be used", { problem: describeProblem(problem) });
    return true;
  }

  /** Reads the keys again, and verifies all locked content with them if they have changed. Returns whether they have. */
  rereadKeys(): Promise<boolean> {
    return this.runExclusively(async () => {
      if (!(await this.readKeys())) return false;
      await this.lockedModules.verifyAndUnpackAll();
      return true;
    });
  }

  /** The keys that may sign content of a module: those of the source that requests it, else of the source in its lock entry. */
  listKeys(name: string): readonly Signer[] {
    const source = this.#sources.requested.get(name)?.source ?? this.lock.entries.get(name)?.source ?? "";
    return filterKeys(this.installerKeys, this.#sources.get(source)?.spec);
  }

  /**
   * Whether a source still names the module, with the same spec: a user may edit the source, or delete it and create it
   * again, during a check.
   */
  isStillRequested({ name, object }: SourceEntry, module: string): boolean {
    const now = this.#sources.get(name)?.object;
    if (this.#closed || now === undefined || identifySpec(now) !== identifySpec(object)) return false;
    return this.#sources.requested.get(module)?.source === name;
  }

  /** As the leader: changes the lock while nothing else does, and then updates modules directory and state. */
  async commit(work: () => Promise<void>): Promise<void> {
    await this.runExclusively(async () => {
      if (this.#closed) throw new Error("the operator stops");
      await work();
      this.reporter.onLockChanged(this.lock.entries);
      await this.#publishModulesDir();
    });
  }

  /** Writes the modules directory, and lets the state read the modules again that have changed. */
  async #publishModulesDir(): Promise<void> {
    const changed = await this.writeModulesDir();
    if (changed === "all" || changed.size > 0) this.options.state.record("filesChanged", changed);
  }

  /** Puts into the modules directory again what someone has deleted from the disk. Never throws: a read then finds what is left. */
  async restoreModulesDir(): Promise<void> {
    if (this.lockedModules.isIntact) return;
    await this.runExclusively(async () => {
      // Work that was in progress may have replaced links.
      if (this.#closed || this.lockedModules.isIntact) return;
      await this.#publishModulesDir();
      this.options.logger.warn("Files of modules from registries were deleted, and are restored");
    }).catch((error: unknown) => {
      const fields = { error: oneLine(error) };
      this.options.logger.warn("Files of modules from registries cannot be restored", fields);
    });
  }

  /** As the leader: updates the modules directory from ModuleSources and lock, without a change of the lock. */
  publish(): Promise<void> {
    return this.commit(() => Promise.resolve());
  }

  /**
   * Writes the modules directory, and returns the modules that have changed. If the ModuleSources could not be read at the
   * start, modules may be missing in the directory: the problem is passed on, so that no release is purged for that.
   */
  writeModulesDir(): Promise<ChangedModules> {
    const startProblem = this.#problems.get("start");
    return this.lockedModules.writeModulesDir(this.#sources.requested, startProblem);
  }

  /** Describes for support which content is in use, and why. Contains no credentials: the specs only name Secrets. */
  describeState(): Json {
    const sources = [...this.#sources.all()].map(({ name, object: { spec, status }, problem }) => {
      return { name, problem, spec, status };
    });
    const { entries } = this.lock;
    const contents = [...entries.keys()].map((name) => [name, this.lockedModules.getContent(name)] as const);
    return JSON.parse(
      JSON.stringify({
        faults: Object.fromEntries(this.#problems),
        keys: this.#keys.keys.map(({ source, hint }) => `${source} ${hint}`),
        problems: this.#keys.problems.map(describeProblem),
        sources,
        lock: { name: this.lock.name, entries: Object.fromEntries(entries) },
        contents: Object.fromEntries(contents),
      }),
    ) as Json;
  }
}

/** Watches one ConfigMap by name. Calls `changed` after the first list and after each change. */
export function watchConfigMap(
  { hub, namespace, logger }: ModuleSourcesOptions,
  name: string,
  changed: () => void,
): { close(): void } {
  const store = new ObjectStore({ toStored: toStoredVersion });
  const spec = toNamedSpec(CONFIG_MAPS, { namespace, name });
  return store.watch(hub, spec, {
    onChange: changed,
    onError: (error) => {
      if (error !== undefined) logger.warn("A ConfigMap cannot be watched", { name, error: oneLine(error) });
    },
  });
}
