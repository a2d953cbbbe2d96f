/** Puts the operator together, starts it and stops it. */

import { hookTask } from "../hooks/index.ts";
import { CronTable } from "../cron/index.ts";
import { Engine } from "../engine/index.ts";
import { applyOwnCrds } from "../helm/index.ts";
import type { Releases } from "../helm/index.ts";
import { Leadership, RedactionKey, firstContact, redactionSecretName, watchRights } from "../kube/index.ts";
import { IdleMemory, breathe } from "../lib/index.ts";
import type { Failures, Scope } from "../lib/index.ts";
import { LEASE_GRACE_MS } from "../config.ts";
import type { Environment } from "../config.ts";
import { moduleOf, queueOf } from "../model/index.ts";
import type { Hook, HookTrigger, Task } from "../model/index.ts";
import { HookMetrics, bindingTimes, countWait, createMetrics, hasHook } from "../metrics/index.ts";
import { explainHold } from "../plan/index.ts";
import { Scratch, endChildren, reportChildren } from "../process/index.ts";
import { Queues, RateLimits, TaskWaits } from "../queue/index.ts";
import type { Settings } from "../settings.ts";
import { State } from "../state/index.ts";
import type { Happening } from "../status/index.ts";
import { runTask } from "../tasks/index.ts";
import type { Hands } from "../tasks/index.ts";
import { ConfigMapSource, FollowedReleases, KubeBindings, Schedules } from "../triggers/index.ts";
import { makeBase } from "./base.ts";
import type { Base } from "./base.ts";
import { Faces } from "./faces.ts";
import { makeHands } from "./hands.ts";
import { makeReleases } from "./releases.ts";
import { loadConfig, loadEverything, warmUp } from "./startup.ts";
import { makeHelmWitness, makeWitness } from "./witness.ts";

/** After the lease is lost, children are ended first; whatever is left after this time is killed. */
const CHILDREN_GRACE_MS = LEASE_GRACE_MS - 1000;
const BITE_MS = LEASE_GRACE_MS - 500;

export interface OperatorOptions {
  readonly settings: Settings;
  readonly env: Environment;
  /** Releases everything acquired, last in first out. */
  readonly scope: Scope;
  /** Aborted when the operator is to stop. */
  readonly stop: AbortController;
}

/** The rooms, put together and started in order. */
export class Operator {
  readonly #options: OperatorOptions;
  readonly #base: Base;
  readonly #state: State;
  readonly #queues: Queues<Task>;
  readonly #engine: Engine;
  readonly #metrics;
  readonly #hookMetrics: HookMetrics;
  readonly #waits: TaskWaits;
  readonly #memory: IdleMemory;
  readonly #leadership: Leadership;
  readonly #limits: RateLimits;
  readonly #bindings: KubeBindings;
  #hands: Hands | undefined;
  #faces: Faces | undefined;
  #followed: FollowedReleases | undefined;
  /** Set when the lease was lost: nothing may run any more. */
  #graceMs: number;

  constructor(options: OperatorOptions) {
    this.#options = options;
    const { settings } = options;
    this.#graceMs = settings.shutdownTimeoutMs;
    this.#base = makeBase(settings, options.env, options.scope);
    const { clock } = this.#base;
    this.#metrics = createMetrics({ prefix: settings.metricsPrefix });
    reportChildren(this.#base.failures);
    this.#base.failures.onFailure = (place) => this.#metrics.internalError(place);
    this.#hookMetrics = new HookMetrics({
      prefix: settings.metricsPrefix,
      exists: (owner) => hasHook(this.#state, owner),
    });
    this.#state = new State({ clock, secrets: this.#base.secrets, onChange: () => this.#changed() });
    this.#limits = new RateLimits(clock);
    this.#memory = new IdleMemory(clock);
    this.#leadership = new Leadership({
      ...this.#base,
      biteMs: BITE_MS,
      onLost: (reason) => this.#lost(reason),
    });
    options.scope.add(() => this.#memory.close());
    this.#queues = new Queues<Task>({
      clock,
      bounds: { minMs: settings.retryMinMs, maxMs: settings.retryMaxMs },
      random: Math.random,
      run: async (batch, context) => {
        countWait(this.#metrics, batch[0], context);
        // A thousand tasks that wait for nothing must not keep the lease from being renewed.
        await breathe();
        return runTask(this.#handsOrThrow(), batch, context);
      },
      delay: (task) => this.#limits.waitMs(task),
      onChange: () => {
        this.#waits.look();
        this.#memory.touch();
        this.#faces?.queuesChanged();
      },
      onSettled: (batch, outcome) => this.#settled(batch, outcome.kind === "retry"),
      onAction: (queue, action, ms) => this.#metrics.queues.acted({ queue, action, seconds: ms / 1000 }),
    });
    this.#waits = new TaskWaits(this.#queues);
    this.#engine = new Engine(this.#state, this.#queues);
    this.#bindings = this.#makeBindings();
    this.#state.explainWith((name) => {
      const view = this.#state.view;
      const module = view.modules.get(name);
      return module === undefined ? undefined : explainHold(module, { view, queues: this.#queues.views() });
    });
  }

  /** Where errors are reported that nobody waits for. */
  get failures(): Failures {
    return this.#base.failures;
  }

  /** What a stop waits for: running queues, and statuses that are not written yet. */
  owed(): { running: number; unwritten: number } {
    return { running: this.#queues.running, unwritten: this.#faces?.unwritten ?? 0 };
  }

  /**
   * Starts, works, and resolves when asked to stop or when the lease is lost. Throws ProblemError when it refuses
   * to start.
   */
  async run(): Promise<void> {
    const { stop } = this.#options;
    await Scratch.cleanStale(this.#base.settings.tmpDir, this.#base.clock);
    await this.#start();
    await new Promise<void>((resolve) => {
      if (stop.signal.aborted) resolve();
      stop.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  /** Stops: no new triggers, running work may end within the time-out, then status and lease. */
  async stop(): Promise<void> {
    this.#engine.stop();
    await this.#queues.stop(this.#graceMs);
    await endChildren(CHILDREN_GRACE_MS);
    await this.#faces?.flush(this.#leadership.leads);
    await this.#leadership.release();
  }

  async #start(): Promise<void> {
    const { scope, stop } = this.#options;
    const { client, logger, settings, namespace } = this.#base;
    await firstContact(client, stop.signal);
    logger.info("Connected", { server: client.origin.server, namespace });
    const config = new ConfigMapSource({
      ...this.#base,
      state: this.#state,
      name: settings.configMap,
      onTrouble: (reason, message) => this.#faces?.configTrouble(reason, message),
    });
    scope.add(() => config.close());
    const announce = (event: Happening): void => this.#faces?.announce(event);
    const watched = { metrics: this.#metrics, state: this.#state, announce };
    const releases = makeReleases(this.#base, {
      witness: makeHelmWitness(watched),
      ownRelease: () => config.release,
      onCrds: () => this.#bindings.kindsChanged(),
    });
    scope.add(() => releases.close());
    const hands = this.#makeHands(config, releases);
    const faces = this.#makeFaces(config, releases);
    await faces.open();
    // Before asking for the lease: that may be the very right that is missing.
    void watchRights(this.#base, scope, (missing) => {
      this.#metrics.modules.missingRights(missing.length);
      this.#state.recordMissingRights(missing);
    });
    // A follower is warm: what it reads now it need not read when it takes over.
    const key = new RedactionKey({ ...this.#base, secret: redactionSecretName(settings.configMap) });
    if (settings.ha) await Promise.all([warmUp(this.#base, hands), releases.ready(), key.read()]);
    await this.#leadership.acquire(faces.port, stop.signal);
    await Promise.all([
      key.ensure(),
      loadEverything(this.#base, this.#state, hands),
      settings.manageCrds ? applyOwnCrds(this.#base) : undefined,
      releases.endOrphans(stop.signal).then(() => releases.ready()),
    ]);
    faces.mirror();
    await this.#loadConfig(config, hands);
    await config.watch();
    this.#followed = new FollowedReleases({
      ...this.#base,
      state: this.#state,
      releases,
      scope,
      onAbsent: (module, object) => this.#metrics.modules.absent(module, object),
    });
    faces.setHealing(this.#followed.healing);
    if (this.#state.view.boot !== "waiting") this.#begin();
  }

  /** Invalid content is reported on the AddonOperator before the operator exits. */
  async #loadConfig(config: ConfigMapSource, hands: Hands): Promise<void> {
    try {
      await loadConfig(this.#state, config, hands);
    } catch (error) {
      await this.#faces?.flush();
      throw error;
    }
  }

  #begin(): void {
    this.#state.recordBoot("onStartup");
    this.#queues.offer("main", { kind: "boot", key: "boot" });
  }

  #makeFaces(config: ConfigMapSource, releases: Releases): Faces {
    const faces = new Faces(this.#base, {
      state: this.#state,
      queues: this.#queues,
      metrics: this.#metrics,
      hookMetrics: this.#hookMetrics,
      releases,
      config,
      bindings: this.#bindings,
      mirrored: () => this.#leadership.mirrored(),
      scope: this.#options.scope,
    });
    this.#faces = faces;
    return faces;
  }

  #makeHands(config: ConfigMapSource, releases: Releases): Hands {
    const { scope } = this.#options;
    const { clock, logger, env } = this.#base;
    scope.add(() => this.#bindings.close());
    const table = new CronTable({
      clock,
      zone: env["TZ"] ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    });
    const schedules = new Schedules(table, (hook, trigger) => this.#offerHook(hook, trigger));
    scope.add(() => {
      schedules.close();
      table.close();
    });
    const hands = makeHands(this.#base, {
      state: this.#state,
      queues: this.#queues,
      bindings: this.#bindings,
      schedules,
      releases,
      config,
      witness: makeWitness({
        metrics: this.#metrics,
        state: this.#state,
        announce: (event) => this.#faces?.announce(event),
        logger,
      }),
      hookMetrics: this.#hookMetrics,
      waits: this.#waits,
    });
    this.#hands = hands;
    return hands;
  }

  #makeBindings(): KubeBindings {
    return new KubeBindings({
      ...this.#base,
      keepManagedFields: this.#base.settings.keepManagedFields,
      emit: (hook, trigger) => this.#offerHook(hook, trigger),
      onTrouble: (hook, binding, message) => {
        if (message !== undefined) this.#metrics.kube.bindingMissing(binding.name);
        this.#noteTroubles(hook.module);
      },
      times: (hook, binding) => bindingTimes(this.#metrics, hook, binding),
    });
  }

  #noteTroubles(module: string | undefined): void {
    const own = this.#bindings.troubles().filter((each) => each.module === module);
    const troubles = own.map((each) => `hook ${each.hook}, binding ${each.binding}: ${each.message}`);
    this.#state.recordTroubles(module, troubles);
  }

  #offerHook(hook: Hook, trigger: HookTrigger): void {
    this.#queues.offer(queueOf(trigger), hookTask(hook, trigger));
  }

  /** When the lease is lost, children are ended before another operator may start any. */
  #lost(reason: string): void {
    this.#base.logger.error("The lease is lost; stopping", { reason });
    this.#graceMs = 0;
    this.#options.stop.abort(new Error("lost the lease"));
    void endChildren(CHILDREN_GRACE_MS);
  }

  /** After a run: watches the objects that its release has now, and tells people when the next try is. */
  #settled(batch: readonly Task[], failed: boolean): void {
    const [task] = batch;
    const module = task === undefined || task.kind === "hook" ? undefined : moduleOf(task);
    if (module !== undefined) {
      this.#followed?.look(module);
      const waiting = this.#queues.views().flatMap((queue) => queue.tasks);
      const nextAt = waiting.find((each) => each.task === task)?.nextAt;
      this.#state.update(module, (record) => {
        if (record.retry !== undefined && nextAt !== undefined) record.retry = { ...record.retry, nextAt };
      });
    }
    // Views of what waits behind a failure change, though nothing was recorded.
    if (failed) this.#faces?.update(this.#state.view);
    this.#engine.look();
  }

  #changed(): void {
    const view = this.#state.view;
    // The ConfigMap is back: only now the first start goes on.
    if (view.boot === "waiting" && view.config.condition === "ok") this.#begin();
    if (view.boot === "running") this.#followed?.begin();
    this.#engine.look();
    this.#faces?.update(this.#state.view);
  }

  #handsOrThrow(): Hands {
    if (this.#hands === undefined) throw new Error("not started");
    return this.#hands;
  }
}
