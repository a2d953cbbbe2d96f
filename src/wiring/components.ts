/**
 * Builds the packages' objects of an operator and connects them by callbacks. `base` is what all packages share (settings, clock, log, API client);
 * the scope closes at the end what it gets; `state` records what is known; the engine adds the due tasks to the queues. After a pause without work,
 * the idle collector collects garbage and frees memory.
 */

import { KubeBindings, createSources } from "../bindings/index.ts";
import type { Releases } from "../helm/index.ts";
import { HookLoader, applyObjects, runEnabledScript, runHook } from "../hooks/index.ts";
import { Leadership, requestServerVersion } from "../kube/index.ts";
import { attempt, collectGarbageWhenIdle, type Debounce, type Scope } from "../lib/index.ts";
import { countRequests, hasHook, HookMetricScopes, Metrics, Report } from "../metrics/index.ts";
import { camelCase, moduleOf, type Task } from "../model/index.ts";
import { isConfirmedMissing, hashModuleFiles, resolveDirectories } from "../modules/index.ts";
import { releaseFreeMemory } from "../process/index.ts";
import { Engine, mayMoveNow, mustKeepObjects } from "../plan/index.ts";
import type { Queues } from "../queue/index.ts";
import { State } from "../state/index.ts";
import { RateLimits, taskQueues, type Ports } from "../tasks/index.ts";
import {
  AcceptedConfig,
  Annotations,
  RequiredObjects,
  ValuesSources,
  WatchIssues,
  WatchedConfig,
  WatchedFiles,
  WatchedReleases,
} from "../triggers/index.ts";
import { registerSecrets, createSourceRedactor } from "../values/index.ts";
import { countDroppedSpans, makeReleases, readTimeZone, type Base } from "./base.ts";
import { Adapters } from "./adapters.ts";
import { WebhookWiring } from "./webhooks.ts";

interface ComponentsOptions {
  readonly scope: Scope;
  readonly expireMs: number;
  readonly onLost: (reason: string) => void;
}

/** The objects of an operator, built and connected by hand (composition root). */
export class Components {
  readonly state: State;
  readonly queues: Queues<Task>;
  readonly engine: Engine;
  readonly metrics: Metrics;
  readonly report: Report;
  readonly leadership: Leadership;
  readonly config: WatchedConfig;
  readonly releases: Releases;
  readonly ports: Ports;
  readonly adapters: Adapters;
  readonly webhooks: WebhookWiring;
  readonly #rateLimits: RateLimits;
  readonly #base: Base;
  readonly #scope: Scope;
  readonly #hookMetrics: HookMetricScopes;
  readonly #idleCollector: Debounce;
  readonly #bindings: KubeBindings;
  readonly #longQueues = new Set<string>();
  #watchedReleases: WatchedReleases | undefined;

  /** The order matters: each object gets those that are built before it; those that it needs only later, it reads through a function. */
  constructor(base: Base, { scope, expireMs, onLost }: ComponentsOptions) {
    this.#base = base;
    this.#scope = scope;
    const { clock, failures, moduleQueues, secrets, settings } = base;
    this.metrics = new Metrics(settings.metricsPrefix);
    countDroppedSpans(base.spanExport, this.metrics);
    countRequests(this.metrics, base);
    failures.onFailure = (place) => this.metrics.add("internalErrors", { place });
    this.#hookMetrics = this.#makeHookMetrics();
    const operator = { name: settings.configMap, namespace: base.namespace };
    this.state = new State({ ...settings, operator, moduleQueues, clock, secrets });
    // Called when the known secrets are collected again: the operator's own and those of values.
    const registerOwnSecrets = secrets.registerAgain;
    secrets.registerAgain = () => {
      registerOwnSecrets?.();
      registerSecrets(this.state.values, secrets);
    };
    this.report = new Report({
      metrics: this.metrics,
      logger: base.logger,
      state: this.state,
      watchIssues: scope.closeAtEnd(new WatchIssues({ state: this.state, clock })),
      announce: (event) => this.adapters.announce(event),
      listHookIssues: (module) => this.#listHookIssues(module),
    });
    this.#idleCollector = collectGarbageWhenIdle(clock, releaseFreeMemory);
    // Both watch objects that modules name, and record what they observe in the state.
    const accessOf = base.actors.accountLimitsOf;
    scope.closeAtEnd(new RequiredObjects({ ...base, state: this.state, accessOf }));
    scope.closeAtEnd(new ValuesSources({ ...base, state: this.state, accessOf }));
    this.leadership = new Leadership({ ...base, report: this.report, expireMs, onLost });
    this.#rateLimits = new RateLimits(clock);
    this.queues = this.#makeQueues();
    this.engine = new Engine(this.state, this.queues);
    this.config = this.#makeConfig();
    this.#bindings = this.#makeBindings();
    this.releases = this.#makeReleases();
    this.webhooks = new WebhookWiring(base, this, { limits: this.#rateLimits, scope });
    this.ports = this.#makePorts();
    this.adapters = this.#makeAdapters();
    this.state.onChange(() => this.#idleCollector.restart());
    this.state.onChange((view) => this.report.removalsBlocked(view));
  }

  /** Builds what makes the operator visible outside. */
  #makeAdapters(): Adapters {
    return new Adapters(this.#base, {
      state: this.state,
      queues: this.queues,
      metrics: this.metrics,
      releases: this.releases,
      config: this.config,
      annotations: new Annotations({ state: this.state, config: this.config, logger: this.#base.logger }),
      watchedReleases: () => this.#watchedReleases,
      hookMetrics: this.#hookMetrics,
      bindings: this.#bindings,
      leadership: this.leadership,
      idleMemory: this.#idleCollector,
      scope: this.#scope,
    });
  }

  /** Starts to watch the objects of releases. Only the leader does, because it alone reports and repairs them. */
  watchReleases(): void {
    this.#watchedReleases = new WatchedReleases({
      ...this.#base,
      state: this.state,
      releases: this.releases,
      scope: this.#scope,
      accessOf: this.#base.actors.accountLimitsOf,
      healthTimeoutMs: this.#base.settings.healthTimeoutMs,
      drift: this.#base.settings.drift,
      report: this.report,
    });
  }

  /** Starts to watch the directories (`--watch-dirs`). */
  async watchFiles(): Promise<void> {
    const { settings } = this.#base;
    if (!settings.watchDirs) return;
    const files = new WatchedFiles({
      ...this.#base,
      state: this.state,
      dirs: resolveDirectories(settings),
      report: this.report,
    });
    await this.#scope.closeAtEnd(files).start();
  }

  /** Builds the queues of tasks, and connects them to metrics, statuses and the plan, which checks after each run what is due next. */
  #makeQueues(): Queues<Task> {
    const { clock, moduleQueues, settings } = this.#base;
    return taskQueues(() => this.ports, {
      clock,
      bounds: { minMs: settings.retryMinMs, maxMs: settings.retryMaxMs },
      random: Math.random,
      slots: moduleQueues.slots,
      limits: this.#rateLimits,
      onChange: () => {
        this.#idleCollector.restart();
        this.adapters.handleQueueChange();
      },
      // Statuses show failures and long runs: they are updated after a run that was, or becomes, one of these.
      onEnd: (batch, outcome, { failures, queue }) => {
        const wasLong = this.#longQueues.delete(queue);
        this.#onRunEnded(batch, wasLong || failures > 0 || outcome.kind === "retry");
      },
      // A long run stops blocking tasks that do not need its result: the engine checks what is due.
      onLong: (queue, task) => {
        this.#longQueues.add(queue);
        this.report.runHangs(queue, task);
        this.adapters.refresh();
        this.engine.check();
      },
      onDrop: (queue, task) => this.report.tickDropped(queue, task),
      onAction: (queue, action, ms) => this.report.queueChanged(queue, action, ms),
    });
  }

  #makeHookMetrics(): HookMetricScopes {
    const { accounts, settings } = this.#base;
    return new HookMetricScopes({
      prefix: settings.metricsPrefix,
      hookExists: (owner) => hasHook(this.state, owner),
      hasAccount: (module) => attempt(() => accounts.getKnownAccount(module)) !== undefined,
    });
  }

  /** Builds the watch of the ConfigMap. Stores accepted content only with `--invalid-config=last-good`. */
  #makeConfig(): WatchedConfig {
    const { configMap: name, invalidConfig } = this.#base.settings;
    const accepted = invalidConfig === "last-good" ? new AcceptedConfig({ ...this.#base, name }) : undefined;
    return this.#scope.closeAtEnd(
      new WatchedConfig({
        ...this.#base,
        state: this.state,
        name,
        report: this.report,
        accepted: accepted && this.#scope.closeAtEnd(accepted),
      }),
    );
  }

  /** Builds the watches of objects that kubernetes bindings of hooks select, with the permissions of the hook's module. */
  #makeBindings(): KubeBindings {
    return this.#scope.closeAtEnd(
      new KubeBindings({
        ...this.#base,
        createPermissionCheck: (hook, binding, resource) =>
          this.#base.actors.createListCheck(hook, binding, resource),
        keepManagedFields: this.#base.settings.keepManagedFields,
        queues: this.queues,
        report: this.report,
      }),
    );
  }

  /** Builds the releases. They query the state whether a release has a module, and which objects must stay. */
  #makeReleases(): Releases {
    return this.#scope.closeAtEnd(
      makeReleases(this.#base, {
        report: this.report,
        ownRelease: () => this.config.ownerRelease,
        hasModule: (name) => {
          const module = this.state.view.tree.modules.find((each) => each.name === name);
          return module !== undefined && !isConfirmedMissing(module, this.#base.clock);
        },
        hideOf: (release) => createSourceRedactor(this.state.values, camelCase(release)),
        keepsObjects: (release) => mustKeepObjects(this.state.view, this.state.values.config, release),
        mayMove: (release, to) => mayMoveNow(this.state, { release, to }),
      }),
    );
  }

  /** Creates a loader, which runs hook files with `--config`. */
  createLoader(): HookLoader {
    const { clock, logger, moduleQueues, runs, filters, actors } = this.#base;
    const checkFilter = (filter: string): Promise<unknown> => filters.compile(filter);
    return new HookLoader({ ...runs, actorOf: actors.actorOf, moduleQueues, checkFilter, clock, logger });
  }

  /** Builds the ports, through which tasks use all other packages. */
  #makePorts(): Ports {
    const { clock, logger, tracer, settings, runs, filters, client, patchClient, discovery } = this.#base;
    const { retryMinMs, deleteBrake } = settings;
    const { actorOf, accountLimitsOf } = this.#base.actors;
    const schedules = createSources({ clock, zone: readTimeZone(this.#base.env), queues: this.queues });
    return {
      state: this.state,
      queues: this.queues,
      clock,
      logger,
      tracer,
      retryMinMs,
      deleteBrake,
      watches: this.#bindings,
      sources: this.#scope.closeAtEnd(this.webhooks.addHookWebhooks(schedules)),
      webhooks: this.webhooks.hooks,
      releases: this.releases,
      config: this.config,
      report: this.report,
      hookMetrics: this.#hookMetrics,
      runs,
      restoreChart: this.#base.restoreChart,
      runHook,
      runScript: runEnabledScript,
      actorOf,
      accountLimitsOf,
      loader: this.createLoader(),
      applyObjects,
      patcher: { client: patchClient, discovery, filters, clock },
      serverVersion: (signal) => requestServerVersion(client, signal),
      reader: this.#base.reader,
      contentOf: hashModuleFiles,
    };
  }

  /** Lists why bindings of the module's hooks (undefined: of global hooks) do not work. */
  #listHookIssues(module: string | undefined): string[] {
    const bindings = this.#bindings.issues().filter((each) => each.module === module);
    return [
      ...bindings.map((each) => `hook ${each.hook}, binding ${each.binding}: ${each.message}`),
      ...this.webhooks.hooks.listIssues(module),
    ];
  }

  /** Handles the end of a run: watches the current objects of the release, updates statuses if needed, and plans again. */
  #onRunEnded(batch: readonly Task[], mustRefresh: boolean): void {
    const [task] = batch;
    // A run of a hook alone changes no release.
    const module = task === undefined || task.kind === "hook" ? undefined : moduleOf(task);
    if (module !== undefined) this.#watchedReleases?.recordRelease(module);
    // The time of the next retry, and which tasks are blocked, change without a change of the state.
    if (mustRefresh) this.adapters.refresh();
    this.engine.check();
  }
}
