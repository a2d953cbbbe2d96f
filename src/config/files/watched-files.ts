/**
 * Detects changes in the directories of modules and global hooks (`--watch-dirs`). An entry is a subdirectory of a modules directory, or the
 * directory of global hooks. It is settled when its files have not changed for a moment: half-written modules must not be read.
 */

import { watch } from "node:fs";

import { Timers, type Clock, type Failures, type Logger } from "../../base/index.ts";
import { CONTENT_LIMITS, type ContentDigests, type ContentLimits } from "../../modules/index.ts";
import { Loop } from "../../runtime/index.ts";
import type { State } from "../../engine/state/index.ts";
import type { TriggerReport } from "../report.ts";
import { DirWatches, type WatchDirectory } from "./dir-watches.ts";
import { scan, type DigestsByEntry, type SourceDirs } from "./scan.ts";

/** Least time between two polls, where the kernel has no watches left. */
const POLL_MS = 2000;
/** The pause between two polls is this many times as long as a poll, so that polling takes at most 2 % of the time. */
const POLL_PAUSE_FACTOR = 50;

interface WatchedFilesOptions {
  readonly dirs: SourceDirs;
  readonly state: Pick<State, "tree" | "view" | "record">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly failures: Failures;
  readonly report: Pick<TriggerReport, "dirsScanned">;
  readonly watch?: WatchDirectory;
  readonly limits?: ContentLimits;
}

/**
 * Scans directories after the kernel reported a change and the files have settled (debounce), and polls where the
 * kernel has no watches left. Reports to the state which modules have changed; tasks then read the modules.
 */
export class WatchedFiles {
  readonly #options: WatchedFilesOptions;
  readonly #watches: DirWatches;
  readonly #debouncer = new Debouncer();
  /** Digests that were reported to the state, or found at the start. */
  #reportedDigests: DigestsByEntry = new Map();
  /** Result of the previous poll; undefined while the kernel has watches. */
  #lastPoll: DigestsByEntry | undefined;
  /** Scans. */
  readonly #loop: Loop;
  readonly #timers: Timers<"settled">;
  /** The first scan has ended. */
  #isStarted = false;
  readonly #warnedEntries = new Set<string>();
  #isClosed = false;

  constructor(options: WatchedFilesOptions) {
    this.#options = options;
    this.#watches = new DirWatches({
      onChange: (entry) => this.#handleChange(entry),
      onLimit: (code) => this.#startPolling(code),
      watch: options.watch ?? watch,
    });
    this.#timers = new Timers(options.clock);
    this.#loop = new Loop({
      clock: options.clock,
      run: () => this.#scanWhatIsDue(),
      retry: POLL_MS,
      onError: (error) => {
        if (this.#isStarted) options.failures.report("files", error);
      },
    });
  }

  get #isPolling(): boolean {
    return this.#lastPoll !== undefined;
  }

  /** Starts to watch; resolves after the first scan, whose result counts as known to the state. */
  async start(): Promise<void> {
    await this.#loop.flush();
  }

  close(): void {
    this.#isClosed = true;
    this.#loop.close();
    this.#timers.close();
    this.#watches.close();
  }

  /** The kernel reported a change: scans the entry once its files have settled. */
  #handleChange(entry: string): void {
    this.#withdrawReport(entry);
    this.#debouncer.recordChange(entry, this.#options.clock.monotonic());
    this.#scheduleScan();
  }

  /** Withdraws a reported change that was not read yet: the files are changing again and may be half written. */
  #withdrawReport(entry: string): void {
    const { state } = this.#options;
    const name = this.#findModuleName(entry);
    const reported = this.#reportedDigests.get(entry);
    if (name === undefined || reported === undefined) return;
    // A report of "all" affects more than this entry and stays.
    const { modulesWithChangedFiles } = state.view;
    if (modulesWithChangedFiles === "all" || !modulesWithChangedFiles.has(name)) return;
    state.record("fileChangeWithdrawn", name);
    // No scan finds empty digests, so the next one reports the entry again.
    const impossible = { ...reported, stamps: "", content: "" };
    this.#reportedDigests = new Map(this.#reportedDigests).set(entry, impossible);
  }

  /** Schedules the scan of settled entries, and postpones it after further changes; polling has its own rhythm. */
  #scheduleScan(): void {
    const waitMs = this.#msUntilSettled;
    if (waitMs !== undefined && !this.#isPolling)
      this.#timers.set("settled", waitMs, () => this.#loop.trigger());
  }

  /** Time until the changed entries have settled; undefined without any. */
  get #msUntilSettled(): number | undefined {
    const { dueAt } = this.#debouncer;
    return dueAt === undefined ? undefined : dueAt - this.#options.clock.monotonic();
  }

  /** Scans all entries at the start and when polling, otherwise the ones that have settled. Returns the time until the next poll. */
  async #scanWhatIsDue(): Promise<number | void> {
    if (!this.#isStarted) {
      this.#reportedDigests = await this.#scan(() => true);
      this.#isStarted = true;
    } else if (this.#isPolling) return this.#poll();
    else if ((this.#msUntilSettled ?? 1) <= 0) await this.#scanSettled();
    this.#scheduleScan();
  }

  /** Scans the entries that have settled. If a modules directory itself has changed, scans all its entries. */
  async #scanSettled(): Promise<void> {
    const settled = this.#debouncer.takeSettled(this.#options.clock.monotonic());
    if (settled.size === 0) return;
    const changedDirs = this.#options.dirs.modulesDirs.filter((dir) => settled.has(dir));
    const isStale = (entry: string): boolean =>
      settled.has(entry) || changedDirs.some((dir) => entry.startsWith(`${dir}/`));
    this.#reportChanges(await this.#scan(isStale));
  }

  /**
   * Scans all entries, without kernel watches. An entry has settled if two polls in a row find the same digests. Returns the time until the
   * next poll.
   */
  async #poll(): Promise<number> {
    const { clock } = this.#options;
    const startedAt = clock.monotonic();
    const previous = this.#lastPoll ?? new Map();
    const current = await this.#scan(() => true);
    this.#lastPoll = current;
    const unsettled = findChangedEntries(previous, current);
    unsettled.forEach((entry) => this.#withdrawReport(entry));
    // Unsettled entries count as unchanged until the next poll.
    this.#reportChanges(keepPrevious(current, this.#reportedDigests, unsettled));
    return Math.max(POLL_MS, POLL_PAUSE_FACTOR * (clock.monotonic() - startedAt));
  }

  /** Reports the entries whose content differs from the last report: modules by name, or "all" if discovery or other modules may be affected. */
  #reportChanges(current: DigestsByEntry): void {
    const before = this.#reportedDigests;
    this.#reportedDigests = current;
    const names = findChangedEntries(before, current, "content").map((entry) =>
      concernsModuleOnly(before.get(entry), current.get(entry)) ? this.#findModuleName(entry) : undefined,
    );
    if (names.length === 0 || this.#isClosed) return;
    const moduleNames = names.filter((name) => name !== undefined);
    const areModulesOnly = moduleNames.length === names.length;
    this.#options.state.record("filesChanged", areModulesOnly ? new Set(moduleNames) : "all");
  }

  /** Scans the stale entries, opens kernel watches of the directories that it finds, and closes those of directories that are deleted. */
  async #scan(isStale: (entry: string) => boolean): Promise<DigestsByEntry> {
    const { dirs, report, limits = CONTENT_LIMITS } = this.#options;
    const before = this.#reportedDigests;
    this.#watches.startScan();
    const current = await scan({
      dirs,
      before,
      isStale,
      onDir: (dir) => this.#watches.add(dir),
      onTooLarge: (entry) => this.#warnTooLarge(entry),
      limits,
    });
    // Each scan adds the watches of modules directories; a removed entry is not scanned, but its watches are to be closed.
    this.#watches.closeUnusedWatches(
      (entry) => isStale(entry) || dirs.modulesDirs.includes(entry) || !current.has(entry),
    );
    report.dirsScanned({ watchCount: this.#watches.size, isPolling: this.#isPolling });
    return current;
  }

  /** The name of the module in this entry; undefined if it is no module of the tree. */
  #findModuleName(entry: string): string | undefined {
    return this.#options.state.tree.modules.find(({ dir }) => dir === entry)?.name;
  }

  /** Warns once that an entry is scanned only in part. */
  #warnTooLarge(entry: string): void {
    if (this.#warnedEntries.has(entry)) return;
    this.#warnedEntries.add(entry);
    const { entries } = this.#options.limits ?? CONTENT_LIMITS;
    const remedy = "remove the link that leads to them, or name it in .helmignore";
    const message = `The directory contains more than ${entries} files and directories; changes of the deepest ones are not detected`;
    this.#options.logger.warn(message, { directory: entry, remedy });
  }

  /** The kernel has no watches left (`code` is the error's): polls from now on, until the operator restarts. */
  #startPolling(code: string): void {
    const remedy = "raise fs.inotify.max_user_watches or fs.inotify.max_user_instances of the node";
    const message = "The kernel has no inotify watches left; the directories are polled every few seconds";
    this.#options.logger.warn(message, { code, remedy });
    this.#lastPoll = new Map();
    this.#loop.trigger(POLL_MS);
  }
}

/** Finds the entries that were added, removed or changed by one of their digests. */
function findChangedEntries(
  before: DigestsByEntry,
  current: DigestsByEntry,
  by: keyof ContentDigests = "stamps",
): string[] {
  const entries = new Set([...before.keys(), ...current.keys()]);
  return [...entries].filter((entry) => before.get(entry)?.[by] !== current.get(entry)?.[by]);
}

/** Returns the digests of `current`, but for these entries those of `before`. */
function keepPrevious(
  current: DigestsByEntry,
  before: DigestsByEntry,
  entries: readonly string[],
): DigestsByEntry {
  const mixed = new Map(current);
  for (const entry of entries) {
    const old = before.get(entry);
    if (old === undefined) mixed.delete(entry);
    else mixed.set(entry, old);
  }
  return mixed;
}

/** Whether a change affects neither discovery nor other modules. */
function concernsModuleOnly(
  before: ContentDigests | undefined,
  current: ContentDigests | undefined,
): boolean {
  return before !== undefined && current !== undefined && before.discoveryInputs === current.discoveryInputs;
}

/** After this time without a change, editors, rsync and git-sync are done. */
const DEBOUNCE_MS = 200;
/** Longest delay of entries that have settled while other entries keep changing. */
const MAX_DELAY_MS = 5000;

/** Collects changed entries until they have settled (no change for DEBOUNCE_MS): half-written modules must not be read. */
class Debouncer {
  /** Time of the last change, by entry. */
  readonly #lastChangeAt = new Map<string, number>();
  /** Since when the oldest entry may have been waiting. */
  #delayStartedAt = 0;

  /** An entry has changed at `now` (monotonic ms). */
  recordChange(entry: string, now: number): void {
    if (this.#lastChangeAt.size === 0) this.#delayStartedAt = now;
    this.#lastChangeAt.set(entry, now);
  }

  /** When the next scan is due: once all entries have settled, but at the latest MAX_DELAY_MS after the first change. Undefined while nothing has changed. */
  get dueAt(): number | undefined {
    if (this.#lastChangeAt.size === 0) return undefined;
    return Math.min(
      Math.max(...this.#lastChangeAt.values()) + DEBOUNCE_MS,
      this.#delayStartedAt + MAX_DELAY_MS,
    );
  }

  /** Removes and returns the entries that have settled; the others stay, and their longest delay begins again. */
  takeSettled(now: number): ReadonlySet<string> {
    const settled = [...this.#lastChangeAt]
      .filter(([, changedAt]) => changedAt + DEBOUNCE_MS <= now)
      .map(([entry]) => entry);
    for (const entry of settled) this.#lastChangeAt.delete(entry);
    this.#delayStartedAt = now;
    return new Set(settled);
  }
}
