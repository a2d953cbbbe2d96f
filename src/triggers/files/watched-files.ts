/** Detects changes in the directories of modules and global hooks (`--watch-dirs`). */

import { watch } from "node:fs";

import type { Clock, Failures, Logger, Timer } from "../../lib/index.ts";
import type { State } from "../../state/index.ts";
import { DirWatches, type Watch } from "./dir-watches.ts";
import { scan, SCAN_LIMITS } from "./scan.ts";
import type { ScanLimits, SourceDirs, Fingerprint, Fingerprints } from "./scan.ts";

/** Least time between two polls, where the kernel has no watches left. */
const POLL_MS = 2000;
/** The pause between two polls is this many times as long as a poll. */
const POLL_PAUSE_FACTOR = 50;

export interface WatchHealth {
  /** Directories with a kernel watch. */
  readonly watched: number;
  /** The kernel has no watches left: the directories are polled. */
  readonly polls: boolean;
}

interface WatchedFilesOptions {
  readonly dirs: SourceDirs;
  readonly state: Pick<State, "tree" | "view" | "record">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly failures: Failures;
  readonly onScan: (health: WatchHealth) => void;
  readonly watch?: Watch;
  readonly limits?: ScanLimits;
}

/**
 * Scans directories after the kernel reported a change and the files have settled (debounce), and polls where the
 * kernel has no watches left. Records in the state which modules have other content; reading them is up to tasks.
 */
export class WatchedFiles {
  readonly #options: WatchedFilesOptions;
  readonly #watches: DirWatches;
  readonly #settling = new Debouncer();
  /** Fingerprints that were reported to the state, or found at the start. */
  #reported: Fingerprints = new Map();
  /** Result of the previous poll; undefined while the kernel has watches. */
  #lastPoll: Fingerprints | undefined;
  #timer: Timer | undefined;
  #isScanning = false;
  /** Entries that a warning was logged for. */
  readonly #tooLarge = new Set<string>();
  #closed = false;

  constructor(options: WatchedFilesOptions) {
    this.#options = options;
    this.#watches = new DirWatches({
      onNews: (entry) => this.#onChange(entry),
      onLimit: (code) => this.#startPolling(code),
      watch: options.watch ?? watch,
    });
  }

  get #isPolling(): boolean {
    return this.#lastPoll !== undefined;
  }

  /** Starts to watch; resolves after the first scan. */
  async start(): Promise<void> {
    await this.#exclusively(async () => {
      this.#reported = await this.#scan(() => true);
    });
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#watches.close();
  }

  /** The kernel reported a change: scans the entry once its files have settled. */
  #onChange(entry: string): void {
    this.#withdraw(entry);
    this.#settling.touch(entry, this.#options.clock.monotonic());
    this.#schedule();
  }

  /** Withdraws a reported change that was not read yet: the files are changing again and may be half written. */
  #withdraw(entry: string): void {
    const name = this.#moduleAt(entry);
    const seen = this.#reported.get(entry);
    const { state } = this.#options;
    const { modulesWithChangedFiles } = state.view;
    if (
      seen === undefined ||
      name === undefined ||
      modulesWithChangedFiles === "all" ||
      !modulesWithChangedFiles.has(name)
    )
      return;
    state.record("filesForgotten", name);
    this.#reported = new Map(this.#reported).set(entry, { ...seen, stamps: "", content: "" });
  }

  /** Schedules the next scan; a scan under way does so at its end. */
  #schedule(): void {
    if (this.#isScanning || this.#closed || this.#isPolling) return;
    const { dueAt } = this.#settling;
    if (dueAt !== undefined) this.#runIn(dueAt - this.#options.clock.monotonic(), () => this.#scanSettled());
  }

  /** Sets the only timer: a later call replaces an earlier one. */
  #runIn(ms: number, act: () => Promise<void>): void {
    const { clock, failures } = this.#options;
    this.#timer?.cancel();
    if (!this.#closed)
      this.#timer = clock.setTimer(ms, () => failures.callAndReport("files", () => this.#exclusively(act)));
  }

  /** Runs a scan during which no other is scheduled, and schedules the next one after it. */
  async #exclusively(act: () => Promise<void>): Promise<void> {
    this.#isScanning = true;
    try {
      await act();
    } finally {
      this.#isScanning = false;
      this.#schedule();
    }
  }

  /** Scans the entries that have settled. If a modules directory itself has changed, scans all its entries. */
  async #scanSettled(): Promise<void> {
    const settled = this.#settling.takeSettled(this.#options.clock.monotonic());
    if (settled.size === 0) return;
    const settledDirs = this.#options.dirs.modulesDirs
      .filter((dir) => settled.has(dir))
      .map((dir) => `${dir}/`);
    this.#report(
      await this.#scan((entry) => settled.has(entry) || settledDirs.some((dir) => entry.startsWith(dir))),
    );
  }

  /** An entry has settled if two polls in a row find the same. */
  async #poll(): Promise<void> {
    const { clock } = this.#options;
    const begun = clock.monotonic();
    const previous = this.#lastPoll ?? new Map();
    const now = await this.#scan(() => true);
    this.#lastPoll = now;
    const unsettled = changedEntries(previous, now);
    unsettled.forEach((entry) => this.#withdraw(entry));
    this.#report(withPrevious(now, this.#reported, unsettled));
    this.#runIn(Math.max(POLL_MS, POLL_PAUSE_FACTOR * (clock.monotonic() - begun)), () => this.#poll());
  }

  /** Reports entries whose content differs from what was reported before. */
  #report(now: Fingerprints): void {
    const before = this.#reported;
    this.#reported = now;
    // No name: the change may concern discovery or other modules.
    const names = changedEntries(before, now, "content").map((entry) =>
      concernsModuleOnly(before.get(entry), now.get(entry)) ? this.#moduleAt(entry) : undefined,
    );
    if (names.length === 0 || this.#closed) return;
    const known = names.filter((name) => name !== undefined);
    this.#options.state.record("filesMoved", known.length < names.length ? "all" : new Set(known));
  }

  /** Scans the stale entries, and adapts the kernel watches to the directories that it finds. */
  async #scan(isStale: (entry: string) => boolean): Promise<Fingerprints> {
    const { dirs, onScan, limits = SCAN_LIMITS } = this.#options;
    const before = this.#reported;
    this.#watches.beginRound();
    const now = await scan({
      dirs,
      before,
      isStale,
      onDir: (dir) => this.#watches.add(dir),
      onTooLarge: (entry) => this.#warnTooLarge(entry),
      limits,
    });
    this.#watches.drop((entry) => isStale(entry) || dirs.modulesDirs.includes(entry) || !now.has(entry));
    onScan({ watched: this.#watches.size, polls: this.#isPolling });
    return now;
  }

  #moduleAt(entry: string): string | undefined {
    return this.#options.state.tree.modules.find(({ dir }) => dir === entry)?.name;
  }

  #warnTooLarge(entry: string): void {
    if (this.#tooLarge.has(entry)) return;
    this.#tooLarge.add(entry);
    const { entries } = this.#options.limits ?? SCAN_LIMITS;
    const remedy = "remove the link that leads to them, or name it in .helmignore";
    const message = `The directory contains more than ${entries} files and directories; changes of the deepest ones are not detected`;
    this.#options.logger.warn(message, { directory: entry, remedy });
  }

  /** The kernel has no watches left: polls from now on, until the operator restarts. */
  #startPolling(code: string): void {
    const remedy = "raise fs.inotify.max_user_watches or fs.inotify.max_user_instances of the node";
    const message = "The kernel has no inotify watches left; the directories are polled every few seconds";
    this.#options.logger.warn(message, { code, remedy });
    this.#lastPoll = new Map();
    this.#runIn(POLL_MS, () => this.#poll());
  }
}

/** Entries that were added, removed or changed. */
function changedEntries(before: Fingerprints, now: Fingerprints, by: keyof Fingerprint = "stamps"): string[] {
  const entries = new Set([...before.keys(), ...now.keys()]);
  return [...entries].filter((entry) => before.get(entry)?.[by] !== now.get(entry)?.[by]);
}

/** `now`, with the previous fingerprints of `entries`. */
function withPrevious(now: Fingerprints, before: Fingerprints, entries: readonly string[]): Fingerprints {
  const mixed = new Map(now);
  for (const entry of entries) {
    const old = before.get(entry);
    if (old === undefined) mixed.delete(entry);
    else mixed.set(entry, old);
  }
  return mixed;
}

/** Whether a change affects neither discovery nor other modules. */
function concernsModuleOnly(before: Fingerprint | undefined, now: Fingerprint | undefined): boolean {
  return before !== undefined && now !== undefined && before.discoveryInputs === now.discoveryInputs;
}

/** After this time without a change, editors, rsync and git-sync are done. */
const DEBOUNCE_MS = 200;
/** Longest delay of settled entries while others keep changing. */
const MOST_DELAY_MS = 5000;

/** Debounces changes by entry. */
class Debouncer {
  readonly #touched = new Map<string, number>();
  #since = 0;

  touch(entry: string, now: number): void {
    if (this.#touched.size === 0) this.#since = now;
    this.#touched.set(entry, now);
  }

  /** When the next scan is due; undefined while nothing has changed. */
  get dueAt(): number | undefined {
    if (this.#touched.size === 0) return undefined;
    return Math.min(Math.max(...this.#touched.values()) + DEBOUNCE_MS, this.#since + MOST_DELAY_MS);
  }

  /** Removes and returns the entries that have settled; the others stay. */
  takeSettled(now: number): ReadonlySet<string> {
    const settled = [...this.#touched].filter(([, at]) => at + DEBOUNCE_MS <= now).map(([entry]) => entry);
    for (const entry of settled) this.#touched.delete(entry);
    this.#since = now;
    return new Set(settled);
  }
}
