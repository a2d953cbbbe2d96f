/** Caches the summary of the last revision of each release that was read. */

import type { ReleaseSummary } from "./record.ts";
import type { ReleaseMeta } from "./revisions.ts";

interface CachedSummary {
  readonly uid: string;
  readonly reading: Promise<ReleaseSummary>;
  /** Undefined while the record is being read. */
  summary: ReleaseSummary | undefined;
}

/** Summaries of releases, one for each release: a record has up to 1 MiB, and each run asks for the same few facts again. */
export class SummaryCache {
  readonly #load: (meta: ReleaseMeta) => Promise<ReleaseSummary>;
  readonly #cachedByRelease = new Map<string, CachedSummary>();

  constructor(load: (meta: ReleaseMeta) => Promise<ReleaseSummary>) {
    this.#load = load;
  }

  /** The summary of a revision, read at the first call. Concurrent callers share one read; a failed read is repeated by the next call. */
  async read(meta: ReleaseMeta): Promise<ReleaseSummary> {
    const known = this.#cachedByRelease.get(meta.name);
    if (known?.uid === meta.uid) return known.reading;
    const cached: CachedSummary = { uid: meta.uid, reading: this.#load(meta), summary: undefined };
    this.#cachedByRelease.set(meta.name, cached);
    try {
      cached.summary = await cached.reading;
      return cached.summary;
    } catch (error) {
      if (this.#cachedByRelease.get(meta.name) === cached) this.forget(meta.name);
      throw error;
    }
  }

  /** The summary of a revision that was read before. Sends no request. */
  get(meta: ReleaseMeta): ReleaseSummary | undefined {
    const known = this.#cachedByRelease.get(meta.name);
    return known?.uid === meta.uid ? known.summary : undefined;
  }

  /** Discards the summary of a release, because its record has changed or may have. */
  forget(release: string): void {
    this.#cachedByRelease.delete(release);
  }
}
