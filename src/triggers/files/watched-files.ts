/** Notices what changes in the directories of modules and global hooks (`--watch-dirs`). */

import { watch, type FSWatcher } from "node:fs";

import type { Clock, Failures, Logger, Timer } from "../../lib/index.ts";
import type { State } from "../../state/index.ts";
import { look, LOOK_LIMITS } from "./look.ts";
import type { LookLimits, Places, Seen, Sight, WatchedDir } from "./look.ts";

/** How often the directories are looked at where the kernel tells nothing, at most. */
const POLL_MS = 2000;
/** Between two looks passes this many times what one takes. */
const POLL_PAUSES = 50;

/** How directories are watched. */
export interface WatchHealth {
  /** Directories of which the kernel tells. */
  readonly watched: number;
  /** The kernel has no more watches to give: the directories are looked at from time to time. */
  readonly polls: boolean;
}

interface WatchedFilesOptions {
  readonly places: Places;
  readonly state: Pick<State, "tree" | "recordFiles" | "forgetFiles">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly failures: Failures;
  readonly onLook: (health: WatchHealth) => void;
  readonly watch?: Watch;
  readonly limits?: LookLimits;
}

/**
 * Looks at the directories whenever the kernel tells of a change and it has become calm there, or from time to time
 * where the kernel has no watches left, and tells the state what has another content. Nothing is read for use here.
 */
export class WatchedFiles {
  readonly #options: WatchedFilesOptions;
  readonly #watches: DirWatches;
  readonly #settling = new Settling();
  /** What was told to the state, or was there at the start. */
  #sight: Sight = new Map();
  /** The last look of those from time to time. */
  #polled: Sight | undefined;
  #timer: Timer | undefined;
  #looking = false;
  /** Entries of which was said that they hold too much. */
  readonly #tooLarge = new Set<string>();
  #closed = false;

  constructor(options: WatchedFilesOptions) {
    this.#options = options;
    this.#watches = new DirWatches({
      onNews: (entry) => this.#touched(entry),
      onLimit: (code) => this.#limited(code),
      watch: options.watch ?? watch,
    });
  }

  /** From now on, changes are noticed. */
  async start(): Promise<void> {
    await this.#alone(async () => {
      this.#sight = await this.#look(() => true);
    });
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#watches.close();
  }

  #touched(entry: string): void {
    this.#forget(entry);
    this.#settling.touch(entry, this.#options.clock.monotonic());
    this.#plan();
  }

  /** What was told and not read yet may be half written by now: it is told again when it is calm. */
  #forget(entry: string): void {
    const name = this.#moduleAt(entry);
    const seen = this.#sight.get(entry);
    if (seen === undefined || name === undefined || !this.#options.state.forgetFiles(name)) return;
    this.#sight = new Map(this.#sight).set(entry, { ...seen, stamps: "", content: "" });
  }

  /** The next look, unless one goes on: that plans it at its end. */
  #plan(): void {
    if (this.#looking || this.#closed || this.#polled !== undefined) return;
    const { dueAt } = this.#settling;
    if (dueAt !== undefined) this.#later(dueAt - this.#options.clock.monotonic(), () => this.#takeCalm());
  }

  #later(ms: number, act: () => Promise<void>): void {
    const { clock, failures } = this.#options;
    this.#timer?.cancel();
    if (!this.#closed)
      this.#timer = clock.setTimer(ms, () => failures.guard("files", () => this.#alone(act)));
  }

  async #alone(act: () => Promise<void>): Promise<void> {
    this.#looking = true;
    try {
      await act();
    } finally {
      this.#looking = false;
      this.#plan();
    }
  }

  async #takeCalm(): Promise<void> {
    const calm = this.#settling.take(this.#options.clock.monotonic());
    if (calm.size === 0) return;
    const whole = this.#options.places.modulesDirs.filter((dir) => calm.has(dir)).map((dir) => `${dir}/`);
    this.#tell(await this.#look((entry) => calm.has(entry) || whole.some((dir) => entry.startsWith(dir))));
  }

  /** What two looks in a row find the same is calm. */
  async #poll(): Promise<void> {
    const { clock } = this.#options;
    const begun = clock.monotonic();
    const last = this.#polled ?? new Map();
    const now = await this.#look(() => true);
    this.#polled = now;
    const restless = changed(last, now);
    restless.forEach((entry) => this.#forget(entry));
    this.#tell(withOld(now, this.#sight, restless));
    this.#later(Math.max(POLL_MS, POLL_PAUSES * (clock.monotonic() - begun)), () => this.#poll());
  }

  /** Tells what is another one than was told before. */
  #tell(now: Sight): void {
    const before = this.#sight;
    this.#sight = now;
    const names = changed(before, now, "content").map((entry) =>
      isOwnMatter(before.get(entry), now.get(entry)) ? this.#moduleAt(entry) : undefined,
    );
    if (names.length === 0 || this.#closed) return;
    const known = names.filter((name) => name !== undefined);
    this.#options.state.recordFiles(known.length < names.length ? "all" : new Set(known));
  }

  async #look(isStale: (entry: string) => boolean): Promise<Sight> {
    const { places, onLook, limits = LOOK_LIMITS } = this.#options;
    const before = this.#sight;
    this.#watches.renew();
    const now = await look({
      places,
      before,
      isStale,
      onDir: (dir) => this.#watches.add(dir),
      onTooLarge: (entry) => this.#foundTooLarge(entry),
      limits,
    });
    this.#watches.drop((entry) => isStale(entry) || places.modulesDirs.includes(entry) || !now.has(entry));
    onLook({ watched: this.#watches.size, polls: this.#polled !== undefined });
    return now;
  }

  #moduleAt(entry: string): string | undefined {
    return this.#options.state.tree.modules.find(({ dir }) => dir === entry)?.name;
  }

  #foundTooLarge(entry: string): void {
    if (this.#tooLarge.has(entry)) return;
    this.#tooLarge.add(entry);
    const { entries } = this.#options.limits ?? LOOK_LIMITS;
    const remedy = "remove the link that leads to them, or name it in .helmignore";
    const message = `The directory holds more than ${entries} files and directories; changes of what lies deepest go unnoticed`;
    this.#options.logger.warn(message, { directory: entry, remedy });
  }

  #limited(code: string): void {
    const remedy = "raise fs.inotify.max_user_watches or fs.inotify.max_user_instances of the node";
    const message = "The kernel has no more watches to give; directories are looked at every few seconds";
    this.#options.logger.warn(message, { code, remedy });
    this.#polled = new Map();
    this.#later(POLL_MS, () => this.#poll());
  }
}

/** Entries that are new, gone or another one. */
function changed(before: Sight, now: Sight, by: keyof Seen = "stamps"): string[] {
  const entries = new Set([...before.keys(), ...now.keys()]);
  return [...entries].filter((entry) => before.get(entry)?.[by] !== now.get(entry)?.[by]);
}

/** `now`, but of these entries what was before. */
function withOld(now: Sight, before: Sight, entries: readonly string[]): Sight {
  const mixed = new Map(now);
  for (const entry of entries) {
    const old = before.get(entry);
    if (old === undefined) mixed.delete(entry);
    else mixed.set(entry, old);
  }
  return mixed;
}

/** Whether the rest of the modules has nothing to do with it. */
function isOwnMatter(before: Seen | undefined, now: Seen | undefined): boolean {
  return before !== undefined && now !== undefined && before.terms === now.terms;
}

/** Nothing has changed for this long: editors, rsync and git-sync are done. */
const CALM_MS = 200;
/** Something changes all the time: what is calm is not kept waiting for longer. */
const LONGEST_MS = 5000;

/** Remembers which entries have changed, and when each of them did last. */
class Settling {
  readonly #touched = new Map<string, number>();
  #since = 0;

  /** Something below `entry` changed. */
  touch(entry: string, now: number): void {
    if (this.#touched.size === 0) this.#since = now;
    this.#touched.set(entry, now);
  }

  /** When it is time to look; undefined while nothing has changed. */
  get dueAt(): number | undefined {
    if (this.#touched.size === 0) return undefined;
    return Math.min(Math.max(...this.#touched.values()) + CALM_MS, this.#since + LONGEST_MS);
  }

  /** Takes out what is calm by now; the rest waits on. */
  take(now: number): ReadonlySet<string> {
    const calm = [...this.#touched].filter(([, at]) => at + CALM_MS <= now).map(([entry]) => entry);
    for (const entry of calm) this.#touched.delete(entry);
    this.#since = now;
    return new Set(calm);
  }
}

/** Starts to watch a directory; as `fs.watch`. */
type Watch = (dir: string, news: (event: string, name: string | null) => void) => FSWatcher;

/** The limits of inotify: watches of a user, and instances or open files. */
const LIMITS = new Set(["ENOSPC", "EMFILE", "ENFILE"]);

interface DirWatchesOptions {
  readonly onNews: (entry: string) => void;
  /** The kernel has no more watches to give; nothing is watched any more. */
  readonly onLimit: (code: string) => void;
  readonly watch: Watch;
}

/** The directories that are watched. One that is gone or may not be read is none: those above it tell of it. */
class DirWatches {
  readonly #options: DirWatchesOptions;
  readonly #watchers = new Map<string, { readonly entry: string; readonly watcher: FSWatcher }>();
  /** Those that were added since `renew`. */
  readonly #fresh = new Set<string>();
  #closed = false;

  constructor(options: DirWatchesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#watchers.size;
  }

  /** What is added from now on is what `drop` leaves. */
  renew(): void {
    this.#fresh.clear();
  }

  add({ dir, entry, id, name }: WatchedDir): void {
    const key = [entry, dir, id, name ?? ""].join("\0");
    this.#fresh.add(key);
    if (this.#closed || this.#watchers.has(key)) return;
    try {
      const watcher = this.#options.watch(dir, (_event, changed) => {
        if (name === undefined || changed === null || changed === name) this.#options.onNews(entry);
      });
      watcher.on("error", (error) => this.#failed(error));
      watcher.unref();
      this.#watchers.set(key, { entry, watcher });
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Ends the watches of these entries that were not added again. */
  drop(isRenewed: (entry: string) => boolean): void {
    for (const [key, { entry, watcher }] of this.#watchers) {
      if (this.#fresh.has(key) || !isRenewed(entry)) continue;
      watcher.close();
      this.#watchers.delete(key);
    }
  }

  close(): void {
    this.#closed = true;
    for (const { watcher } of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  #failed(error: unknown): void {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (this.#closed || !LIMITS.has(code)) return;
    this.close();
    this.#options.onLimit(code);
  }
}
