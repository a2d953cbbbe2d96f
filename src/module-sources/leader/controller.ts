/**
 * What only the leader does for ModuleSources: it checks them in their intervals, records content that passes in the lock,
 * from which every process reads which content a module has, and writes their statuses.
 */

import { toStoredObject, ObjectStore, type StoredObject } from "../../kube/index.ts";
import { exponentialDelay, Memo, oneLine, type Timer } from "../../lib/index.ts";
import { RegistryPauses } from "../../registry/index.ts";
import { MODULE_SOURCES } from "../../status/index.ts";
import { SourceRemovals } from "./removals.ts";
import { watchConfigMap, type SourcesContext } from "../context.ts";
import { LockKeeper } from "../lock-keeper.ts";
import type { SourceEntry } from "../source-list.ts";
import { CheckState, MAX_START_DELAY_MS, readCheckToken, runCheck } from "./check-state.ts";
import type { ModuleCheckTools } from "./module-check.ts";
import { CheckReporter } from "./reporter.ts";
import { ApprovalObserver, getApproval, reviewAfterChanges, UpdateObserver } from "./update-progress.ts";
import type { UpdateObserverPorts } from "./update-progress.ts";
import { StatusWriter } from "./status-writer.ts";

/** Most refused digests that are remembered, so that a check does not fetch them again. */
const MAX_REFUSALS = 1000;
/** Most indexes of chart repositories that are kept in memory between checks. */
const MAX_INDEXES = 100;
/** Until the uid of the CRD is read again after an error. */
const CRD_RETRY = { firstMs: 1000, maxMs: 300_000 };

/**
 * The controller of ModuleSources on the leader. Each source has a timer for its next check, which looks for newer content.
 * Work that changes the lock runs one after another (`#commit`).
 */
export class SourceController {
  readonly #context: SourcesContext;
  readonly #removals: SourceRemovals;
  readonly #checkStates = new Map<string, CheckState>();
  readonly #sourceObjects = new ObjectStore<StoredObject>({ toStored: toStoredObject });
  readonly #subscriptions: { close(): void }[] = [];
  readonly #checkTools: ModuleCheckTools;
  readonly #statusWriter: StatusWriter;
  readonly #startedAt: number;
  readonly #pauses = new RegistryPauses();
  #crdTimer: Timer | undefined;
  #crdFailures = 0;
  #isReconcileScheduled = false;
  /** The first converge has ended. */
  #isStartOver = false;
  #closed = false;

  /** Starts to watch the ModuleSources, the installer's keys and the state of the operator. */
  constructor(context: SourcesContext) {
    this.#context = context;
    const { options } = context;
    const { hub, namespace, clock } = options;
    this.#startedAt = clock.monotonic();
    const runInBackground = (work: () => Promise<void>): void => this.#runInBackground(work);
    this.#statusWriter = new StatusWriter(context, {
      runInBackground,
      getFindings: (name) => this.#checkStates.get(name)?.findings,
    });
    const commit = (work: () => Promise<void>): Promise<void> => this.#commit(work);
    this.#removals = new SourceRemovals(context, commit);
    this.#checkTools = {
      context,
      access: { ...options, indexes: new Memo(MAX_INDEXES), pauses: this.#pauses },
      pauses: this.#pauses,
      refusals: new Memo(MAX_REFUSALS),
      reporter: new CheckReporter(options),
      commit,
      isStillRequested: (source, module) => this.#isStillRequested(source, module),
      getPendingUpdate: (source, module) =>
        this.#checkStates.get(source)?.findings.pendingUpdates.get(module),
    };
    const onChange = (): void => this.#scheduleReconcile();
    const onError = (error: Error | undefined): void => this.#onWatchError(error);
    const listener = { onChange, onSynced: onChange, onError };
    this.#subscriptions.push(
      this.#observeState({ commit }),
      this.#sourceObjects.watch(hub, { resource: MODULE_SOURCES, namespace }, listener),
      watchConfigMap(options, options.keysConfigMap, () => this.#onKeysChanged()),
      new LockKeeper(context, runInBackground),
    );
    this.#runInBackground(() => this.#publish());
    this.#scheduleReconcile();
  }

  /**
   * Reacts to changes of the operator's state: an update has worked or failed, a user has approved one, a removed module is
   * deleted, or the first converge has ended.
   */
  #observeState(ports: Pick<UpdateObserverPorts, "commit">): { close(): void } {
    const context = this.#context;
    const { state, clock } = context.options;
    const approvals = new ApprovalObserver();
    const onDecided = (source: string): void => this.#scheduleCheck(source, 0);
    const runInBackground = (work: () => Promise<void>): void =>
      this.#runInBackground(() =>
        work().catch((error: unknown) => {
          reviews.repeat();
          throw error;
        }),
      );
    const updates = new UpdateObserver(context, { ...ports, runInBackground, onDecided });
    const reviews = reviewAfterChanges(state, clock, () => {
      runInBackground(() => this.#removals.deleteEntriesOfDeleted());
      updates.reviewUpdates();
      this.#startDelayedChecks();
      const readApproval = (module: string): string | undefined => getApproval(context, module);
      for (const source of approvals.findNewlyApproved(context.sources.requested, readApproval))
        this.#scheduleCheck(source, 0);
    });
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
    this.#closed = true;
    this.#removals.close();
    this.#crdTimer?.cancel();
    for (const subscription of this.#subscriptions) subscription.close();
    for (const { timer } of this.#checkStates.values()) timer?.cancel();
    this.#statusWriter.close();
  }

  /** Runs work that no caller awaits. An error of the work is reported, unless the controller was closed meanwhile. */
  #runInBackground(work: () => Promise<void>): void {
    this.#context.options.failures.callAndReport("module sources", async () => {
      if (this.#closed) return;
      await work().catch((error: unknown) => {
        if (!this.#closed) throw error;
      });
    });
  }

  /** Reconciles once for all watch events that have already arrived. Does nothing before the first list is complete. */
  #scheduleReconcile(): void {
    if (this.#isReconcileScheduled || this.#closed || !this.#sourceObjects.isSynced) return;
    this.#isReconcileScheduled = true;
    this.#context.options.clock.setTimer(0, () => {
      this.#isReconcileScheduled = false;
      this.#runInBackground(() => this.#reconcile());
    });
  }

  /** Schedules checks of new and changed sources, forgets deleted sources, and begins to remove modules that no source names. */
  async #reconcile(): Promise<void> {
    const context = this.#context;
    context.setSources([...this.#sourceObjects.values()].map(({ object }) => object));
    await this.#publish();
    for (const name of this.#checkStates.keys())
      if (context.sources.get(name) === undefined) this.#forgetSource(name);
    for (const source of context.sources.all()) {
      this.#checkIfDue(source);
      this.#checkIfModulesChanged(source.name);
    }
    this.#removals.scheduleRemovals();
    await this.#recordCrdUid();
  }

  /** Records in the lock which CRD the ModuleSources belong to, without which no module is removed. Tries again after an error. */
  async #recordCrdUid(): Promise<void> {
    const { logger, clock } = this.#context.options;
    try {
      await this.#removals.recordCrdUid();
      this.#crdFailures = 0;
    } catch (error) {
      logger.debug("The CRD of ModuleSources cannot be read", { error: oneLine(error) });
      this.#crdFailures += 1;
      const retry = (): void => this.#runInBackground(() => this.#recordCrdUid());
      this.#crdTimer?.cancel();
      if (!this.#closed)
        this.#crdTimer = clock.setTimer(exponentialDelay(this.#crdFailures, CRD_RETRY), retry);
    }
  }

  /**
   * Checks a source if its spec is new or a user requests a check by annotation; otherwise only updates its status. A token
   * of the annotation was handled if this process or, as the status says, an earlier leader has checked for it.
   */
  #checkIfDue(source: SourceEntry): void {
    const checkState = this.#getOrCreateState(source.name);
    const { uid, generation } = source.object.metadata;
    const isNew = checkState.checkedSpec !== `${uid} ${generation}`;
    const token = readCheckToken(source.object);
    const isRequested =
      token !== undefined &&
      token !== checkState.findings.handledToken &&
      token !== source.object.status?.lastHandledReconcileAt;
    if (isNew || isRequested) this.#scheduleCheck(source.name, isRequested ? 0 : this.#getStartDelay(source));
    else this.#statusWriter.writeIfChanged(source.name);
  }

  /** Checks a source again whose modules have changed, although its spec has not: an older source that names one was deleted or edited. */
  #checkIfModulesChanged(name: string): void {
    const modules = this.#context.sources.listModules(name).sort().join();
    const checkState = this.#getOrCreateState(name);
    const isChanged = checkState.modules !== undefined && checkState.modules !== modules;
    checkState.modules = modules;
    if (isChanged) this.#scheduleCheck(name, 0);
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
    for (const [name, { checkedSpec, isRunning }] of this.#checkStates)
      if (checkedSpec === undefined && !isRunning) this.#scheduleCheck(name, 0);
  }

  #getOrCreateState(name: string): CheckState {
    const checkState = this.#checkStates.get(name) ?? new CheckState();
    this.#checkStates.set(name, checkState);
    return checkState;
  }

  /** Ends the timer, the pending status and the series of a ModuleSource that was deleted. */
  #forgetSource(name: string): void {
    this.#checkStates.get(name)?.timer?.cancel();
    this.#statusWriter.forgetSource(name);
    this.#checkStates.delete(name);
    this.#context.options.metrics.dropSeries({ source: name });
  }

  /** Schedules the next check of a source. While a check runs, the next one starts at its end. */
  #scheduleCheck(name: string, ms: number): void {
    const checkState = this.#getOrCreateState(name);
    if (checkState.isRunning) {
      checkState.isCheckDue = true;
      return;
    }
    checkState.timer?.cancel();
    if (!this.#closed)
      checkState.timer = this.#context.options.clock.setTimer(ms, () =>
        this.#runInBackground(() => this.#check(name)),
      );
  }

  /** Checks a source, schedules its next check, and then updates directory, status, lock and disk. */
  async #check(name: string): Promise<void> {
    const source = this.#context.sources.get(name);
    const checkState = this.#checkStates.get(name);
    if (source === undefined || checkState === undefined || this.#closed) return;
    checkState.isRunning = true;
    checkState.isCheckDue = false;
    try {
      await runCheck(this.#checkTools, source, checkState);
    } finally {
      checkState.isRunning = false;
    }
    const { clock } = this.#context.options;
    const waitMs = (checkState.findings.nextCheck ?? 0) - clock.now();
    // Scheduled first: an error of the work below must not end the checks.
    this.#scheduleCheck(name, checkState.isCheckDue ? 0 : waitMs);
    await this.#publish();
    this.#statusWriter.writeIfChanged(name);
    await this.#recordCrdUid();
    await this.#collectGarbage();
  }

  /**
   * Whether the source still names the module, with the same spec: a user may edit the source, or delete it and create it
   * again (`uid`), during a check.
   */
  #isStillRequested({ name, object }: SourceEntry, module: string): boolean {
    const { sources } = this.#context;
    const { uid, generation } = sources.get(name)?.object.metadata ?? {};
    const isSameSpec = uid === object.metadata.uid && generation === object.metadata.generation;
    return !this.#closed && isSameSpec && sources.requested.get(module)?.source === name;
  }

  /** Changes the lock while nothing else does, then updates modules directory and state. */
  async #commit(work: () => Promise<void>): Promise<void> {
    const context = this.#context;
    await context.runExclusively(async () => {
      if (this.#closed) throw new Error("the operator stops");
      await work();
      this.#checkTools.reporter.onLockChanged(context.lockedModules.entries);
      const changed = await context.publish();
      // The state reads these modules again.
      if (changed === "all" || changed.size > 0) context.options.state.record("filesChanged", changed);
    });
  }

  /** Updates the modules directory from ModuleSources and lock, without a change of the lock. */
  #publish(): Promise<void> {
    return this.#commit(() => Promise.resolve());
  }

  /** Verifies all locked content with the new keys, and checks all sources: content that was refused may be accepted now. */
  #onKeysChanged(): void {
    this.#runInBackground(async () => {
      if (!(await this.#context.rereadKeys())) return;
      await this.#publish();
      for (const name of this.#checkStates.keys()) this.#scheduleCheck(name, 0);
    });
  }

  /** Deletes blobs and unpacked content that neither the lock nor a pending update names, and reports the size of the rest. */
  async #collectGarbage(): Promise<void> {
    const { lockedModules, options, blobStore } = this.#context;
    const bytes = await this.#context.runExclusively(() => {
      const digests = new Set(lockedModules.listDigests());
      for (const { findings } of this.#checkStates.values())
        for (const { digest } of findings.pendingUpdates.values()) digests.add(digest);
      return blobStore.collectGarbage(digests, options.clock.now());
    });
    if (bytes !== undefined) options.metrics.set("sourceStore", {}, bytes);
  }
}
