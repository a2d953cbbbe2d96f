/** Labels of releases that are written later, because they only save time: nothing waits for them. */

import { oneLine, Debounce, mapInParallel, type Clock, type Logger } from "../../base/index.ts";
import { serialize } from "../../runtime/index.ts";
import type { ReleaseStore } from "./release-store.ts";
import { RELEASE_LABELS, type ReleaseMeta } from "./revisions.ts";

const DEBOUNCE_MS = 1000;
/** Each release takes two requests, and a rollback waits for the labels of all. */
const MAX_PARALLEL_WRITES = 4;

interface LabelTools {
  readonly clock: Clock;
  readonly store: ReleaseStore;
  readonly logger: Logger;
}

/**
 * Writes labels that only save a later rendering. Writes them when no release was worked on for a second, so that a first installation
 * of many modules does not wait for them.
 */
export class DeferredLabels {
  readonly #tools: LabelTools;
  readonly #pendingReleases = new Set<string>();
  readonly #debounce: Debounce;
  readonly #runInTurn = serialize();

  constructor(tools: LabelTools) {
    this.#tools = tools;
    this.#debounce = new Debounce(tools.clock, DEBOUNCE_MS, () => void this.flush());
  }

  /** Adds labels to a revision: in memory now, and in the cluster later, together with those that are not written yet. */
  defer(meta: ReleaseMeta, labels: Readonly<Record<string, string>>): void {
    this.#tools.store.deferLabels(meta, { ...meta.deferredLabels, ...labels });
    this.schedule(meta.name);
  }

  /** Schedules the writing of the deferred labels of a release, or else of the checksum of its manifest. */
  schedule(release: string): void {
    this.#pendingReleases.add(release);
    this.postpone();
  }

  /** Restarts the delay before scheduled labels are written, because a release is being worked on. */
  postpone(): void {
    if (this.#pendingReleases.size > 0) this.#debounce.restart();
  }

  /** Writes all scheduled labels now, after an earlier call has written its own; resolves when all are written. */
  flush(): Promise<void> {
    this.#debounce.close();
    return this.#runInTurn(() => this.#writeAll());
  }

  /** Discards scheduled labels. Nothing is lost: a release without its label only takes longer to compare. */
  close(): void {
    this.#debounce.close();
    this.#pendingReleases.clear();
  }

  async #writeAll(): Promise<void> {
    await mapInParallel(MAX_PARALLEL_WRITES, [...this.#pendingReleases], async (release) => {
      // First, so that a label that is scheduled during the write is written afterwards. `close` has discarded the others.
      if (this.#pendingReleases.delete(release)) await this.#write(release);
    });
  }

  /**
   * Writes the deferred labels of a release's newest revision. Without deferred labels, writes the checksum of the manifest, which
   * helm has just stored. Only logs an error, because a missing label costs no more than time.
   */
  async #write(release: string): Promise<void> {
    const { store, logger } = this.#tools;
    try {
      const newest = store.get(release);
      if (newest === undefined) return;
      const { deferredLabels } = newest;
      const labels = deferredLabels ?? {
        [RELEASE_LABELS.manifest]: (await store.readSummary(newest)).checksum,
      };
      await store.setLabels(newest, labels);
    } catch (error) {
      logger.debug("Labels were not written", { release, error: oneLine(error) });
    }
  }
}
