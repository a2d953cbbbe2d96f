/**
 * What only the leader does for ModuleSources: it checks them in their intervals, records content that passes in the lock,
 * from which every process reads which content a module has, and publishes their statuses.
 */

import { toStoredObject, ObjectStore, type StoredObject } from "../../kube/index.ts";
import { oneLine, type DelayGrowth } from "../../base/index.ts";
import { Loop } from "../../runtime/index.ts";
import { MODULE_SOURCES } from "../../report/index.ts";
import { SourceRemovals } from "./removals.ts";
import { watchConfigMap, type SourcesContext } from "../context.ts";
import { identifySpec, type SourceEntry } from "../source-list.ts";
import { checkSource } from "./check-source.ts";
import { CHECK_RETRY, CheckState, MAX_START_DELAY_MS } from "./check-state.ts";
import { UpdateObserver } from "./update-progress.ts";
import { StatusPublisher } from "./status-publisher.ts";

/** Longest time from a change of the lock until its entries are compared. */
const COMPARE_AFTER_MS = 5000;
/** Until the ModuleSources are reconciled, the lock is compared, or the keys are read, again after an error. */
const RETRY = { firstMs: 1000, maxMs: 300_000 };
/** Changes of the state within this time cause one review: a converge changes the state many times. */
const REVIEW_DELAY_MS = 50;
/** Time until a review is repeated whose work has failed: at rest, no change of the state would cause another one. */
const REPEAT_MS = 10_000;

/** What the controller knows of a source, and the loop of its checks. */
interface CheckLoop {
  readonly state: CheckState;
  readonly loop: Loop;
}

/**
 * The controller of ModuleSources on the leader. Each source has a loop of checks, which look for newer content.
 * Work that changes the lock runs one after another (`SourcesContext.commit`).
 */
export class SourceController {
  readonly #context: SourcesContext;
  readonly #removals: SourceRemovals;
  readonly #checks = new Map<string, CheckLoop>();
  readonly #sourceObjects = new ObjectStore<StoredObject>({ toStored: toStoredObject });
  readonly #subscriptions: { close(): void }[] = [];
  readonly #statusPublisher: StatusPublisher;
  readonly #startedAt: number;
  readonly #reconcileLoop: Loop;
  readonly #lockLoop: Loop;
  readonly #keysLoop: Loop;
  /** The first converge has ended. */
  #isStartOver = false;

  /** Starts to watch the ModuleSources, the installer's keys and the state of the operator. */
  constructor(context: SourcesContext) {
    this.#context = context;
    const { options } = context;
    const { hub, namespace, clock } = options;
    this.#startedAt = clock.monotonic();
    this.#statusPublisher = new StatusPublisher(context);
    this.#reconcileLoop = this.#createLoop(() => this.#reconcile(), RETRY);
    this.#lockLoop = new Loop({
      clock,
      run: () => this.#restoreLock(),
      retry: RETRY,
      onError: (error) => {
        const fields = { configMap: context.lock.name, error: oneLine(error) };
        options.logger.warn("The lock cannot be compared or completed", fields);
      },
    });
    this.#keysLoop = new Loop({
      clock,
      run: () => this.#rereadKeys(),
      retry: RETRY,
      onError: (error) => {
        const fields = { configMap: options.keysConfigMap, error: oneLine(error) };
        options.logger.warn("The keys of module sources cannot be read", fields);
      },
    });
    this.#removals = new SourceRemovals(context);
    context.onContentLost = () => this.#checkAll();
    const onChange = (): void => {
      if (this.#sourceObjects.isSynced) this.#reconcileLoop.trigger();
    };
    const onError = (error: Error | undefined): void => this.#onWatchError(error);
    const listener = { onChange, onSynced: onChange, onError };
    this.#subscriptions.push(
      this.#observeState(),
      this.#sourceObjects.watch(hub, { resource: MODULE_SOURCES, namespace }, listener),
      // Subscribes at the same time, so that both share the first list.
      { close: options.statuses.watchSources(hub) },
      watchConfigMap(options, options.keysConfigMap, () => this.#keysLoop.trigger()),
      // All changes until then count as one, so that a tool that deletes the lock is answered rarely.
      watchConfigMap(options, context.lock.name, () => this.#lockLoop.trigger(COMPARE_AFTER_MS)),
    );
    this.#runInBackground(() => context.publish());
    onChange();
  }

  /** Creates a loop whose errors are internal ones. */
  #createLoop(run: () => Promise<number | void> | void, retry: number | DelayGrowth): Loop {
    const { clock, failures } = this.#context.options;
    const onError = (error: Error): void => failures.report("module sources", error);
    return new Loop({ clock, run, retry, onError });
  }

  /**
   * Reacts to changes of the operator's state: an update has worked or failed, a user has approved one, a removed module is
   * deleted, or the first converge has ended.
   */
  #observeState(): { close(): void } {
    const context = this.#context;
    const triggerCheck = (source: string): void => this.#getOrCreateCheck(source).loop.trigger();
    const runInBackground = (work: () => Promise<void>): void =>
      this.#runInBackground(() =>
        work().catch((error: unknown) => {
          reviews.trigger(REPEAT_MS);
          throw error;
        }),
      );
    const updates = new UpdateObserver(context, { runInBackground, triggerCheck });
    const review = (): void => {
      runInBackground(() => this.#removals.deleteEntriesOfDeleted());
      updates.review();
      this.#startDelayedChecks();
    };
    const reviews = this.#createLoop(review, REPEAT_MS);
    context.options.state.onChange(() => reviews.trigger(REVIEW_DELAY_MS));
    return reviews;
  }

  /** Reports that the watch of ModuleSources fails; without an error, that it works again. */
  #onWatchError(error: Error | undefined): void {
    const message = error && oneLine(error);
    this.#context.setProblem("watch", message && `The ModuleSources cannot be read: ${message}`);
    if (message === undefined) return;
    this.#context.options.logger.warn("ModuleSources cannot be watched; what is locked stays in force", {
      error: message,
    });
  }

  close(): void {
    this.#removals.close();
    this.#lockLoop.close();
    this.#keysLoop.close();
    this.#reconcileLoop.close();
    for (const subscription of this.#subscriptions) subscription.close();
    for (const { loop } of this.#checks.values()) loop.close();
  }

  /** Runs work that no caller awaits. An error of the work is reported, unless the controller was closed meanwhile. */
  #runInBackground(work: () => Promise<void>): void {
    this.#context.options.failures.callAndReport("module sources", async () => {
      if (this.#context.isClosed) return;
      await work().catch((error: unknown) => {
        if (!this.#context.isClosed) throw error;
      });
    });
  }

  /** Schedules checks of new and changed sources, forgets deleted sources, and begins to remove modules that no source names. */
  async #reconcile(): Promise<void> {
    const context = this.#context;
    context.setSources([...this.#sourceObjects.values()].map(({ object }) => object));
    await context.publish();
    for (const name of this.#checks.keys())
      if (context.sources.get(name) === undefined) this.#forgetSource(name);
    for (const source of context.sources.all()) {
      this.#checkIfDue(source);
      this.#checkIfModulesChanged(source.name);
    }
    this.#removals.scheduleRemovals();
    this.#removals.recordCrd();
  }

  /** Checks a source if its spec is new or a user requests a check by annotation; otherwise only updates its status. */
  #checkIfDue(source: SourceEntry): void {
    const { state: checkState, loop } = this.#getOrCreateCheck(source.name);
    const isNew = checkState.checkedSpec !== identifySpec(source.object);
    const isRequested = checkState.isRequested(source.object);
    if (isNew || isRequested) loop.trigger(isRequested ? 0 : this.#getStartDelay(source));
    else this.#statusPublisher.publish(source.name, checkState.findings);
  }

  /** Checks a source again whose modules have changed, although its spec has not: an older source that names one was deleted or edited. */
  #checkIfModulesChanged(name: string): void {
    const modules = this.#context.sources.listModules(name).sort().join();
    const { state: checkState, loop } = this.#getOrCreateCheck(name);
    const isChanged = checkState.modules !== undefined && checkState.modules !== modules;
    checkState.modules = modules;
    if (isChanged) loop.trigger();
  }

  /**
   * How long the first check of a source waits after the start of the operator, in ms. If all its modules have content on
   * disk, they can run without the check, and the first converge comes first.
   */
  #getStartDelay({ name }: SourceEntry): number {
    const { options, lockedModules, sources } = this.#context;
    const isComplete = sources
      .listModules(name)
      .every((module) => lockedModules.getContent(module)?.dir !== undefined);
    if (options.state.view.boot === "running" || !isComplete) return 0;
    return Math.max(0, this.#startedAt + MAX_START_DELAY_MS - options.clock.monotonic());
  }

  /** Starts checks that wait for the end of the first converge (see `#getStartDelay`), once it has ended. */
  #startDelayedChecks(): void {
    if (this.#isStartOver || this.#context.options.state.view.boot !== "running") return;
    this.#isStartOver = true;
    for (const { state, loop } of this.#checks.values())
      if (state.checkedSpec === undefined && loop.isScheduled) loop.trigger();
  }

  #getOrCreateCheck(name: string): CheckLoop {
    const existing = this.#checks.get(name);
    if (existing !== undefined) return existing;
    const state = new CheckState();
    const check = { state, loop: this.#createLoop(() => this.#check(name, state), CHECK_RETRY) };
    this.#checks.set(name, check);
    return check;
  }

  /** Ends the checks, the findings and the series of a ModuleSource that was deleted. */
  #forgetSource(name: string): void {
    this.#checks.get(name)?.loop.close();
    this.#statusPublisher.forgetSource(name);
    this.#checks.delete(name);
    this.#context.options.metrics.dropSeries({ source: name });
  }

  /** Checks a source, and then updates directory, status, lock and disk. Returns the time until the next check. */
  async #check(name: string, checkState: CheckState): Promise<number | void> {
    const source = this.#context.sources.get(name);
    if (source === undefined) return;
    await checkSource(this.#context, source, checkState);
    // An error of this work must not end the checks.
    this.#runInBackground(async () => {
      await this.#context.publish();
      // The source may have been created again meanwhile.
      if (this.#checks.get(name)?.state === checkState)
        this.#statusPublisher.publish(name, checkState.findings);
      this.#removals.recordCrd();
      await this.#collectGarbage();
    });
    return (checkState.findings.nextCheck ?? 0) - this.#context.options.clock.now();
  }

  /** Reads the keys. If they have changed, verifies all locked content, and checks all sources: content that was refused may be accepted now. */
  async #rereadKeys(): Promise<void> {
    if (!(await this.#context.rereadKeys())) return;
    // Each check publishes, too.
    this.#checkAll();
    await this.#context.publish();
  }

  #checkAll(): void {
    for (const { loop } of this.#checks.values()) loop.trigger();
  }

  /** Writes the entries of the lock again that someone else has deleted or changed while the operator runs. */
  async #restoreLock(): Promise<void> {
    const { options, lock } = this.#context;
    const modules = await this.#context.runExclusively(() => lock.restoreLostEntries());
    if (modules.length > 0)
      options.logger.warn("The lock had lost or changed entries, which are written again", {
        configMap: lock.name,
        modules: modules.join(", "),
      });
  }

  /** Deletes blobs and unpacked content that neither the lock nor a waiting version names, and reports the size of the rest. */
  async #collectGarbage(): Promise<void> {
    const { lockedModules, options, blobStore } = this.#context;
    const bytes = await this.#context.runExclusively(() => {
      const digests = new Set(lockedModules.listDigests());
      for (const { state } of this.#checks.values())
        for (const { digest } of state.findings.waitingVersions.values()) digests.add(digest);
      return blobStore.collectGarbage(digests, options.clock.now());
    });
    if (bytes !== undefined) options.metrics.set("sourceStore", {}, bytes);
  }
}
