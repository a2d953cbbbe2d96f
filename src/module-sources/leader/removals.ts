/** Modules that no ModuleSource names any more: switched off after a second check, removed from the lock once they are deleted. */

import {
  CUSTOM_RESOURCE_DEFINITIONS,
  getMetadata,
  type KubeClient,
  type NamedMeta,
  type WatchedObject,
} from "../../kube/index.ts";
import { oneLine, type Clock, type Logger, type Timer } from "../../lib/index.ts";
import { SECOND_CHECK_MS } from "../../plan/index.ts";
import type { ModuleRecord } from "../../state/index.ts";
import type { Sources } from "../source-list.ts";
import type { Stock } from "../locked-modules.ts";
import type { LockEntry } from "../types.ts";

interface RemovalOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly stock: Stock;
  /** The ModuleSources now. */
  readonly sources: () => Sources;
  /** Lists them on the server. Throws if it does not answer. */
  readonly list: () => Promise<readonly WatchedObject[]>;
  /** Changes the lock, while nothing else does, and then publishes it. */
  readonly commit: (work: () => Promise<void>) => Promise<void>;
  readonly recordOf: (module: string) => ModuleRecord | undefined;
  /** Whether this operator has a release of this name. */
  readonly hasRelease: (module: string) => boolean;
  /** Called with the reason why nothing is removed, and with undefined when it is over. */
  readonly held: (why: string | undefined) => void;
}

const CRD = "modulesources.addon-operator.io";

/** Decides what is removed. Nothing but a user's change of a ModuleSource removes a module. */
export class Removals {
  readonly #options: RemovalOptions;
  #timer: Timer | undefined;
  /** Modules that no source named when the timer was set. */
  #missing: ReadonlySet<string> = new Set();
  /** Why removals wait; logged once. */
  #heldBecause: string | undefined;

  /** The CRD is the one that the lock names. */
  #followsCrd = false;

  constructor(options: RemovalOptions) {
    this.#options = options;
  }

  /** Finds modules that no source names, and checks them again later before it switches them off. */
  review(): void {
    const missing = this.#unnamed(this.#options.sources());
    if (missing.length === 0 || this.#timer !== undefined) return;
    this.#missing = new Set(missing.map(([name]) => name));
    this.#timer = this.#options.clock.setTimer(SECOND_CHECK_MS, () => this.#confirm());
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** Removes deleted modules from the lock: their release is removed, and their delete hooks have run. */
  async forgetDeleted(): Promise<void> {
    const deleted = [...this.#options.stock.entries].filter(([name, entry]) => this.#isDeleted(name, entry));
    if (deleted.length === 0) return;
    await this.#options.commit(async () => {
      for (const [name, entry] of deleted)
        if (this.#options.stock.entries.get(name) === entry) await this.#options.stock.forget(name);
    });
  }

  /**
   * Records the CRD whose objects are followed, once every locked module is named by one of them. Before that, nothing is
   * removed. Throws errors of the API.
   */
  async followCrd(): Promise<void> {
    if (this.#followsCrd && this.#heldBecause === undefined) return;
    const { stock, sources } = this.#options;
    const uid = await this.#crdUid();
    if (uid !== undefined && uid !== stock.crdUid) {
      if (this.#unnamed(sources()).length > 0) return;
      await this.#options.commit(() => stock.followCrd(uid));
    }
    this.#followsCrd = uid !== undefined;
  }

  /** The locked modules that no source names, and that are not switched off for it yet. */
  #unnamed(sources: Sources): (readonly [name: string, entry: LockEntry])[] {
    return [...this.#options.stock.entries].filter(
      ([name, { source, removed }]) =>
        removed === undefined && !sources.requested.has(name) && !sources.mayStillName(source),
    );
  }

  /** The second check, with a list from the server. */
  async #confirm(): Promise<void> {
    const { stock, commit, logger, clock } = this.#options;
    this.#timer = undefined;
    const before = this.#missing;
    try {
      const sources = this.#options.sources().next(await this.#options.list());
      const held = await this.#holdOf();
      if (held !== undefined) return this.#hold(held);
      this.#release();
      await commit(async () => {
        for (const [name, entry] of this.#unnamed(sources)) {
          // Only the second check found it, or a source names it again.
          if (!before.has(name) || this.#options.sources().requested.has(name)) continue;
          await stock.lock(name, { ...entry, removed: true });
          logger.info("No ModuleSource names the module any more; it is switched off", {
            module: name,
            source: entry.source,
          });
        }
      });
      this.review();
    } catch (error) {
      this.#hold(`the ModuleSources cannot be read: ${oneLine(error)}`);
    } finally {
      if (this.#heldBecause !== undefined && this.#timer === undefined)
        this.#timer = clock.setTimer(HELD_MS, () => this.#confirm());
    }
  }

  #hold(why: string): void {
    if (this.#heldBecause !== why)
      this.#options.logger.warn("Modules that no ModuleSource names stay as they are", { reason: why });
    this.#heldBecause = why;
    this.#options.held(`Modules that no ModuleSource names are not removed: ${why}`);
  }

  #release(): void {
    this.#heldBecause = undefined;
    this.#options.held(undefined);
  }

  /** Why an empty list does not mean that a user deleted the objects: they were lost together with their CRD. */
  async #holdOf(): Promise<string | undefined> {
    const { stock } = this.#options;
    const uid = await this.#crdUid();
    if (uid === undefined) return `the CRD ${CRD} is missing or being deleted`;
    if (stock.crdUid === uid) return undefined;
    return "the ModuleSources may have been lost together with their CRD; create them again";
  }

  /** The uid of the CRD; undefined if it is missing or being deleted. Throws errors of the API. */
  async #crdUid(): Promise<string | undefined> {
    const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: CRD };
    const { metadata } = await getMetadata<{ metadata: NamedMeta }>(this.#options.client, target);
    return metadata.deletionTimestamp === undefined ? metadata.uid : undefined;
  }

  #isDeleted(name: string, { removed }: LockEntry): boolean {
    const { recordOf, hasRelease } = this.#options;
    if (removed !== true || this.#options.sources().requested.has(name)) return false;
    const record = recordOf(name);
    if (record === undefined) return false;
    const { origin } = record.module;
    // Without an origin, a directory of the same name has taken over.
    return origin === undefined || (origin.removed && isDeleted(record) && !hasRelease(name));
  }
}

/** Whether discovery has switched the module off, and nothing of it is left to be deleted. */
function isDeleted({ enabled, decided, ranHere, leaves }: ModuleRecord): boolean {
  return decided && !enabled && !ranHere && !leaves;
}

/** Time between two checks while removals are blocked. */
const HELD_MS = 60_000;
