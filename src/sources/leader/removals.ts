/** Modules that no ModuleSource names any more: switched off after a second check, removed from the lock once they are deleted. */

import { CUSTOM_RESOURCE_DEFINITIONS, getMetadata, type NamedMeta } from "../../kube/index.ts";
import { MissingItems, oneLine } from "../../base/index.ts";
import { SECOND_CHECK_MS } from "../../engine/plan/index.ts";
import { Loop } from "../../runtime/index.ts";
import type { ModuleRecord } from "../../engine/state/index.ts";
import type { SourcesContext } from "../context.ts";
import type { SourceList } from "../source-list.ts";
import type { LockEntry } from "../types.ts";

const CRD = "modulesources.addon-operator.io";
/** Until the API server is asked again after an error. */
const RETRY = { firstMs: 1000, maxMs: 300_000 };

/**
 * Decides which modules are removed. Nothing but a user's change of a ModuleSource removes a module: if the CRD is deleted,
 * all ModuleSources vanish with it. So the lock records the uid of the CRD, and while the uid of today's CRD is another one,
 * a missing ModuleSource does not count as deleted.
 */
export class SourceRemovals {
  readonly #context: SourcesContext;
  /** Runs the second check. */
  readonly #loop: Loop;
  /** When checks first found that no source names a module. */
  #unnamedSince: ReadonlyMap<string, number> = new Map();
  /** Why removals wait; logged once. */
  #blocker: string | undefined;

  /** Records the CRD in the lock. */
  readonly #crdLoop: Loop;
  /** The CRD is the one that the lock names. */
  #isCrdRecorded = false;

  constructor(context: SourcesContext) {
    this.#context = context;
    const { clock, logger } = context.options;
    this.#crdLoop = new Loop({
      clock,
      run: () => this.#recordCrdUid(),
      retry: RETRY,
      onError: (error) => logger.debug("The CRD of ModuleSources cannot be read", { error: oneLine(error) }),
    });
    this.#loop = new Loop({
      clock,
      run: () => this.#confirmRemovals(),
      retry: RETRY,
      onError: (error) => this.#block(`the ModuleSources cannot be read: ${oneLine(error)}`),
    });
  }

  /**
   * Finds modules that no source names, and checks them again later before it disables them: a tool may delete and create
   * a source again.
   */
  scheduleRemovals(): void {
    const unnamed = this.#listUnnamed(this.#context.sources);
    if (unnamed.length === 0 || this.#loop.isScheduled) return;
    const missing = this.#beginCheck();
    for (const [name] of unnamed) missing.confirm(name);
    this.#unnamedSince = missing.since;
    this.#loop.trigger(SECOND_CHECK_MS);
  }

  /** Begins a check that compares with the last one. */
  #beginCheck(): MissingItems {
    return new MissingItems(this.#context.options.clock.monotonic(), SECOND_CHECK_MS, this.#unnamedSince);
  }

  /** Records the CRD in the lock, if that is possible now: without it, no module is removed. */
  recordCrd(): void {
    this.#crdLoop.trigger();
  }

  close(): void {
    this.#crdLoop.close();
    this.#loop.close();
  }

  /** Deletes the entries of removed modules whose release is deleted and whose delete hooks have run. */
  async deleteEntriesOfDeleted(): Promise<void> {
    const { lock } = this.#context;
    const deleted = [...lock.entries].filter(([name, entry]) => this.#isDeleted(name, entry));
    if (deleted.length === 0) return;
    await this.#context.commit(async () => {
      // Other work may have changed an entry before this work began.
      for (const [name, entry] of deleted)
        if (lock.entries.get(name) === entry) await this.#deleteEntry(name, entry);
    });
  }

  /** Deletes the entry of a deleted module, and logs if its content was not available for its delete hooks. */
  async #deleteEntry(name: string, { source }: LockEntry): Promise<void> {
    const { lockedModules, options } = this.#context;
    const reason = lockedModules.getContent(name)?.problem?.message;
    await lockedModules.deleteEntry(name);
    const fields = { module: name, source, reason };
    if (reason !== undefined) options.logger.warn("A module was deleted without its delete hooks", fields);
  }

  /**
   * Records the uid of a new CRD in the lock, once the ModuleSources name every locked module: then none is lost, and
   * removals are possible. Once that is done, does not ask again while nothing blocks removals. Throws errors of the API.
   */
  async #recordCrdUid(): Promise<void> {
    if (this.#isCrdRecorded && this.#blocker === undefined) return;
    const { lock } = this.#context;
    const uid = await this.#readCrdUid();
    if (uid !== undefined && uid !== lock.crdUid) {
      // The known ModuleSources may be those of the former CRD: only a list after the read of the uid shows those of this one.
      if (this.#listUnnamed(await this.#listSources()).length > 0) return;
      await this.#context.commit(() => lock.writeCrdUid(uid));
    }
    this.#isCrdRecorded = uid !== undefined;
  }

  /** The ModuleSources that the API server has now. */
  async #listSources(): Promise<SourceList> {
    return this.#context.sources.withObjects(await this.#context.listSources());
  }

  /**
   * The locked modules that no source names, and that are not marked as removed yet. A module whose source has an invalid
   * spec or is suspended is not listed: the source may still name it.
   */
  #listUnnamed(sources: SourceList): (readonly [name: string, entry: LockEntry])[] {
    return [...this.#context.lock.entries].filter(
      ([name, { source, removed }]) =>
        removed === undefined && !sources.requested.has(name) && !sources.mayStillProvide(source),
    );
  }

  /**
   * The second check, with a list from the API server: disables modules that still no source names. While something blocks
   * removals, this check is repeated.
   */
  async #confirmRemovals(): Promise<number | void> {
    const { lockedModules, options } = this.#context;
    const sources = await this.#listSources();
    const blocker = await this.#describeBlocker();
    if (blocker !== undefined) {
      this.#block(blocker);
      return BLOCKED_RETRY_MS;
    }
    this.#blocker = undefined;
    this.#context.setProblem("removal", undefined);
    await this.#context.commit(async () => {
      const missing = this.#beginCheck();
      const unnamed = this.#listUnnamed(sources).filter(([name]) => missing.confirm(name));
      this.#unnamedSince = missing.since;
      for (const [name, entry] of unnamed) {
        // A source may name a module again meanwhile.
        if (this.#context.sources.requested.has(name)) continue;
        // The disk may have been full when the content was unpacked last.
        if (lockedModules.getContent(name)?.dir === undefined) await lockedModules.verifyAndUnpack(name);
        await lockedModules.writeEntry(name, { ...entry, removed: true });
        const fields = { module: name, source: entry.source };
        options.logger.info("No ModuleSource names the module any more; the operator disables it", fields);
      }
    });
    this.scheduleRemovals();
  }

  /** Records why no module is removed, and logs it once. */
  #block(why: string): void {
    if (this.#blocker !== why)
      this.#context.options.logger.warn("Modules that no ModuleSource names stay as they are", {
        reason: why,
      });
    this.#blocker = why;
    this.#context.setProblem("removal", `Modules that no ModuleSource names are not removed: ${why}`);
  }

  /** Describes why missing ModuleSources do not mean that a user deleted them: they may have been lost together with their CRD. */
  async #describeBlocker(): Promise<string | undefined> {
    const { lock } = this.#context;
    const uid = await this.#readCrdUid();
    if (uid === undefined) return `the CRD ${CRD} is missing or being deleted`;
    if (lock.crdUid === uid) return undefined;
    return "the ModuleSources may have been lost together with their CRD; create them again";
  }

  /** The uid of the CRD; undefined if it is missing or being deleted. Throws errors of the API. */
  async #readCrdUid(): Promise<string | undefined> {
    const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: CRD };
    const { metadata } = await getMetadata<{ metadata: NamedMeta }>(this.#context.options.client, target);
    return metadata.deletionTimestamp === undefined ? metadata.uid : undefined;
  }

  /**
   * Whether a removed module is deleted completely, or a directory of the same name has replaced it. False while the state
   * has not read the module.
   */
  #isDeleted(name: string, { removed }: LockEntry): boolean {
    const { options, sources } = this.#context;
    if (removed !== true || sources.requested.has(name)) return false;
    const record = options.state.module(name);
    if (record === undefined) return false;
    const { origin } = record.module;
    // Without an origin, a directory of the same name has taken over.
    if (origin === undefined) return true;
    const hasRelease = options.releases.observed.ownership(name) === "ours";
    return origin.removed && isSwitchedOffAndDeleted(record) && !hasRelease;
  }
}

/** Whether discovery has switched the module off, and nothing of it is left to be deleted. */
function isSwitchedOffAndDeleted(record: ModuleRecord): boolean {
  return record.isDiscovered && !record.enabled && !record.hasRunInProcess && !record.isRemovalDecided;
}

/** Time between two checks while removals are blocked. */
const BLOCKED_RETRY_MS = 60_000;
