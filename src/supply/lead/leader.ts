/** The leader's part: it checks sources in their intervals, locks what passes, and writes their statuses. */

import { keepWhole, ObjectStore, type WholeObject } from "../../kube/index.ts";
import { Memo, oneLine } from "../../lib/index.ts";
import { MODULE_SOURCES } from "../../status/index.ts";
import { checkSource, type CheckTools } from "./check.ts";
import { Collector } from "../disk/collector.ts";
import { Removals } from "./removals.ts";
import { followConfigMap, type Shared } from "../shared.ts";
import type { Source } from "../sources.ts";
import { overridden } from "./overridden.ts";
import { newFollowed, tokenOf, type Followed } from "./followed.ts";
import { nextCheck } from "./timing.ts";
import { Approvals, Updates } from "./updates.ts";
import { StatusWriter } from "./status-writer.ts";
import { makeReport } from "./report.ts";
import { problemOfContent } from "./check-content.ts";
import { failureOf } from "./entry/failed-update.ts";

const MOST_REFUSED = 1000;
const MOST_INDEXES = 100;

/** Checks all sources, each by a timer of its own. */
export class Leader {
  readonly #shared: Shared;
  readonly #removals: Removals;
  readonly #followed = new Map<string, Followed>();
  readonly #objects = new ObjectStore<WholeObject>({ keep: keepWhole });
  readonly #subscriptions: { close(): void }[] = [];
  readonly #tools: CheckTools;
  readonly #statuses: StatusWriter;
  readonly #collector: Collector;
  #isReconciling = false;
  #closed = false;

  constructor(shared: Shared) {
    this.#shared = shared;
    this.#collector = new Collector(shared.store);
    const guard = (work: () => Promise<void>): void => this.#guard(work);
    this.#statuses = new StatusWriter(shared, {
      guard,
      findingsOf: (name) => this.#followed.get(name)?.findings,
    });
    const { options, stock, sources, list, setProblem } = shared;
    const { clock, logger, state, hub, namespace } = options;
    const commit = (work: () => Promise<void>): Promise<void> => this.#commit(work);
    this.#removals = new Removals({
      ...options,
      stock,
      sources,
      list,
      commit,
      recordOf: (module) => state.module(module),
      held: (why) => setProblem("removal", why),
    });
    this.#tools = this.#makeTools(commit);
    const approvals = new Approvals();
    const decided = (source: string): void => this.#checkIn(source, 0);
    const updates = new Updates({ ...this.#tools, state, clock, decided, guard });
    state.onChange(() => {
      guard(() => this.#removals.forgetDeleted());
      updates.review();
      const { requested } = sources();
      for (const source of approvals.news(requested, this.#tools.approvedOf)) this.#checkIn(source, 0);
    });
    const issue = (error: Error | undefined): void => {
      const why = error && oneLine(error);
      setProblem("watch", why && `The ModuleSources cannot be read: ${why}`);
      if (why) logger.warn("ModuleSources cannot be watched; what is locked stays in force", { error: why });
    };
    const changed = (): void => this.#reconcileSoon();
    const listener = { changed, synced: changed, issue };
    this.#subscriptions.push(
      this.#objects.follow(hub, { resource: MODULE_SOURCES, namespace }, listener),
      followConfigMap(options, options.keys, () => this.#keysChanged()),
    );
    this.#guard(() => this.#publish());
    this.#reconcileSoon();
  }

  #makeTools(commit: CheckTools["commit"]): CheckTools {
    const { options, stock, store, keys } = this.#shared;
    const { clock, state } = options;
    return {
      stock,
      store,
      access: { ...options, indexes: new Memo(MOST_INDEXES) },
      commit,
      mostBytes: options.mostBytes,
      keys: () => keys().keys,
      problemOf: (content) => problemOfContent({ ...options, tmpDir: store.scratchDir }, content),
      isCurrent: (source, name) => this.#isCurrent(source, name),
      approvedOf: (module) => state.module(module)?.confirmedUpdate,
      approvalUsed: (module, approval) =>
        state.recordModule(module, "confirmationEnded", "confirmedUpdate", approval),
      installedOf: options.contentOf,
      failureOf: (module) => {
        const entry = stock.entries.get(module);
        return entry && failureOf(entry, state.view.modules.get(module), options.contentOf(module));
      },
      heldOf: (source, module) => this.#followed.get(source)?.findings.held.get(module),
      zone: options.zone,
      refused: new Memo(MOST_REFUSED),
      report: makeReport(options),
      now: () => clock.now(),
    };
  }

  close(): void {
    this.#closed = true;
    this.#removals.close();
    for (const subscription of this.#subscriptions) subscription.close();
    for (const { timer } of this.#followed.values()) timer?.cancel();
    this.#statuses.close();
  }

  /** Does work in the background. Its errors are reported, unless this operator stops meanwhile. */
  #guard(work: () => Promise<void>): void {
    this.#shared.options.failures.guard("module sources", async () => {
      if (this.#closed) return;
      await work().catch((error: unknown) => {
        if (!this.#closed) throw error;
      });
    });
  }

  /** Reconciles once, after all events that are there already. */
  #reconcileSoon(): void {
    if (this.#isReconciling || this.#closed || !this.#objects.isSynced) return;
    this.#isReconciling = true;
    this.#shared.options.clock.setTimer(0, () => {
      this.#isReconciling = false;
      this.#guard(() => this.#reconcile());
    });
  }

  /** Takes over the ModuleSources as they are now: plans checks, and finds modules that none names. */
  async #reconcile(): Promise<void> {
    const { sources, setSources } = this.#shared;
    setSources([...this.#objects.values()].map(({ object }) => object));
    await this.#publish();
    for (const name of this.#followed.keys()) if (sources().get(name) === undefined) this.#drop(name);
    for (const source of sources().all()) this.#consider(source);
    this.#removals.review();
    await this.#followCrd();
  }

  async #followCrd(): Promise<void> {
    await this.#removals.followCrd().catch((error: unknown) => {
      const { logger } = this.#shared.options;
      logger.debug("The CRD of ModuleSources cannot be read", { error: oneLine(error) });
    });
  }

  /** Checks a source now if its spec is new or a check is requested; otherwise writes its status if that has changed. */
  #consider(source: Source): void {
    const followed = this.#entry(source.name);
    const { uid, generation } = source.object.metadata;
    const isNew = followed.checked !== `${uid} ${generation}`;
    const token = tokenOf(source.object);
    const isRequested =
      token !== undefined &&
      token !== followed.findings.token &&
      token !== source.object.status?.lastHandledReconcileAt;
    if (isNew || isRequested) this.#checkIn(source.name, 0);
    else this.#statuses.write(source.name);
  }

  #entry(name: string): Followed {
    const known = this.#followed.get(name);
    if (known !== undefined) return known;
    const made = newFollowed();
    this.#followed.set(name, made);
    return made;
  }

  #drop(name: string): void {
    const followed = this.#followed.get(name);
    followed?.timer?.cancel();
    this.#statuses.forget(name);
    this.#followed.delete(name);
    this.#shared.options.metrics.dropSeries({ source: name });
  }

  #checkIn(name: string, ms: number): void {
    const followed = this.#entry(name);
    if (followed.isRunning) return void (followed.isDue = true);
    followed.timer?.cancel();
    if (!this.#closed)
      followed.timer = this.#shared.options.clock.setTimer(ms, () => this.#guard(() => this.#check(name)));
  }

  /** One check of a source, and the time of the next one. */
  async #check(name: string): Promise<void> {
    const source = this.#shared.sources().get(name);
    const followed = this.#followed.get(name);
    if (source === undefined || followed === undefined || this.#closed) return;
    Object.assign(followed, { isRunning: true, isDue: false });
    try {
      await this.#runCheck(source, followed);
    } finally {
      followed.isRunning = false;
    }
    const { clock } = this.#shared.options;
    const waitMs = (followed.findings.nextCheck ?? 0) - clock.now();
    this.#checkIn(name, followed.isDue ? 0 : waitMs);
    await this.#publish();
    this.#statuses.write(name);
    await this.#followCrd();
    await this.#collect();
  }

  /** Checks the modules of a source, and records what was found and when the next check is due. */
  async #runCheck(source: Source, followed: Followed): Promise<void> {
    const { options, stock } = this.#shared;
    const { object, spec, name } = source;
    const { uid, generation } = object.metadata;
    let answered = followed.findings.reachable;
    const report = {
      ...this.#tools.report,
      answered: (from: string, code: string): void => {
        this.#tools.report.answered(from, code);
        answered = code !== "error" && !code.startsWith("5");
      },
    };
    const isIdle = spec === undefined || spec.suspend;
    const names = isIdle ? [] : this.#shared.sources().modulesOf(name);
    const found = await checkSource({ ...this.#tools, report }, source, names);
    const { errors, held } = found;
    const isFailed = [...errors.values()].some(({ reason }) => reason === "CheckFailed");
    followed.failures = isFailed ? followed.failures + 1 : 0;
    const now = options.clock.now();
    if (!isFailed) options.metrics.set("sourceLastSuccess", { source: name }, now / 1000);
    for (const [module, { reason }] of held) stock.recordError(module, reason);
    for (const [module, { message }] of errors) stock.recordError(module, message);
    const checked = { intervalMs: spec?.intervalMs, failures: followed.failures };
    followed.findings = {
      errors: new Map([...overridden(this.#shared, source), ...errors]),
      held,
      lastCheck: now,
      nextCheck: nextCheck({ ...checked, held: held.values(), now }),
      reachable: answered,
      token: tokenOf(object) ?? object.status?.lastHandledReconcileAt,
    };
    followed.checked = `${uid} ${generation}`;
  }

  #isCurrent({ name, object }: Source, module: string): boolean {
    const { sources } = this.#shared;
    const now = sources().get(name);
    return (
      !this.#closed &&
      now?.object.metadata.generation === object.metadata.generation &&
      sources().requested.get(module)?.source === name
    );
  }

  async #commit(work: () => Promise<void>): Promise<void> {
    const { exclusively, publish, stock } = this.#shared;
    await exclusively(async () => {
      if (this.#closed) throw new Error("the operator stops");
      await work();
      this.#tools.report.contents(stock.entries);
      this.#moved(await publish());
    });
  }

  /** Brings the modules directory up to date with sources and lock. */
  #publish(): Promise<void> {
    return this.#commit(() => Promise.resolve());
  }

  #moved(moved: Awaited<ReturnType<Shared["publish"]>>): void {
    if (moved === "all" || moved.size > 0) this.#shared.options.state.record("filesMoved", moved);
  }

  /** Verifies everything again, and checks all sources: what was refused may be accepted now. */
  #keysChanged(): void {
    const { rereadKeys } = this.#shared;
    this.#guard(async () => {
      await rereadKeys();
      await this.#publish();
      for (const name of this.#followed.keys()) this.#checkIn(name, 0);
    });
  }

  /** Deletes blobs and unpacked content that nothing names any more. */
  async #collect(): Promise<void> {
    const { stock, options, exclusively } = this.#shared;
    const waiting = [...this.#followed.values()].flatMap(({ findings }) => [...findings.held.values()]);
    const digests = new Set([...stock.digests(), ...waiting.map(({ digest }) => digest)]);
    const bytes = await exclusively(() => this.#collector.collect(digests, options.clock.now()));
    if (bytes !== undefined) options.metrics.set("sourceStore", {}, bytes);
  }
}
