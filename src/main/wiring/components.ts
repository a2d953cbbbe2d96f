/**
 * Builds the packages' objects of an operator and connects them. `base` is what all packages share (settings, clock, log, API client); the
 * scope closes at the end what it gets; `state` records what is known, and `report` says what happened; the engine adds the due tasks to the
 * queues. After a pause without work, the idle collector collects garbage and frees memory.
 */

import { KubeBindings, createSources } from "../../hooks/bindings/index.ts";
import type { Releases } from "../../helm/index.ts";
import { HookLoader, applyObjects, runEnabledScript, runHook } from "../../hooks/index.ts";
import { createPermissionCheck, Leadership, NAMESPACE_PERMISSIONS } from "../../kube/index.ts";
import { collectGarbageWhenIdle, type Debounce, type Scope } from "../../base/index.ts";
import {
  countFailures,
  countRequests,
  HookMetricScopes,
  Metrics,
  Report,
} from "../../report/metrics/index.ts";
import { camelCase, moduleOf, type Task } from "../../base/model/index.ts";
import { isConfirmedMissing, hashModuleFiles, resolveDirectories } from "../../modules/index.ts";
import { releaseFreeMemory } from "../../base/process/index.ts";
import { Engine, mayMoveNow, mustKeepObjects } from "../../engine/plan/index.ts";
import type { Queues } from "../../engine/queue/index.ts";
import { State } from "../../engine/state/index.ts";
import { RateLimits, taskQueues, type Ports } from "../../engine/tasks/index.ts";
import {
  AcceptedConfig,
  RequiredObjects,
  ValuesSources,
  WatchIssues,
  WatchedConfig,
  WatchedFiles,
} from "../../config/index.ts";
import { WatchedReleases } from "../../releases/index.ts";
import type { Settings } from "../../config/settings/index.ts";
import { registerSecrets, createSourceRedactor } from "../../values/index.ts";
import { makeReleases, type Base } from "./base.ts";
import { Adapters } from "./adapters.ts";
import { WebhookWiring } from "./webhooks.ts";

/** What happens when the lease is lost. */
interface LeaseLoss {
  /** The watchdog kills the process this long after it. */
  readonly expireMs: number;
  readonly onLost: (reason: string) => void;
}

/** What most packages need: the shared objects, the settings, the state, and the report. */
type Shared = Omit<Settings, keyof Base> & Base & { readonly state: State; readonly report: Report };

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
  /** Checks which permissions the operator lacks, with those that the current webhooks need. */
  readonly checkPermissions: () => Promise<void>;
  readonly rateLimits: RateLimits;
  readonly hookMetrics: HookMetricScopes;
  readonly bindings: KubeBindings;
  readonly scope: Scope;
  /** Undefined before `watchReleases`. */
  watchedReleases: WatchedReleases | undefined;
  readonly #idleCollector: Debounce;
  readonly #shared: Shared;
  readonly #longQueues = new Set<string>();

  /** The order matters: each object gets those that are built before it; those that it needs only later, it reads through a function. */
  constructor(base: Base, scope: Scope, lease: LeaseLoss) {
    this.scope = scope;
    const { clock, moduleQueues, secrets, settings } = base;
    this.metrics = new Metrics(settings.metricsPrefix);
    countRequests(this.metrics, base);
    countFailures(this.metrics, base);
    const operator = { name: settings.configMap, namespace: base.namespace };
    this.state = new State({ ...settings, operator, moduleQueues, clock, secrets });
    // Called when the known secrets are collected again: the operator's own and those of values.
    const registerOwnSecrets = secrets.registerAgain;
    secrets.registerAgain = () => {
      registerOwnSecrets?.();
      registerSecrets(this.state.values, secrets);
    };
    this.#idleCollector = collectGarbageWhenIdle(clock, releaseFreeMemory);
    this.report = new Report({
      metrics: this.metrics,
      logger: base.logger,
      state: this.state,
      idleCollector: this.#idleCollector,
      watchIssues: scope.closeAtEnd(new WatchIssues({ state: this.state, clock })),
      announce: (event) => this.adapters.announce(event),
      listHookIssues: (module) => this.#listHookIssues(module),
    });
    this.#shared = { ...settings, ...base, state: this.state, report: this.report };
    this.hookMetrics = new HookMetricScopes(this.#shared);
    // Both watch objects that modules name, and record what they observe in the state.
    scope.closeAtEnd(new RequiredObjects(this.#shared));
    scope.closeAtEnd(new ValuesSources(this.#shared));
    this.leadership = new Leadership({ ...this.#shared, ...lease });
    this.rateLimits = new RateLimits(clock);
    this.queues = this.#makeQueues();
    this.engine = new Engine(this.state, this.queues);
    this.config = this.#makeConfig();
    this.bindings = this.#makeBindings();
    this.releases = this.#makeReleases();
    this.webhooks = new WebhookWiring(base, this);
    const ofNamespaces = settings.moduleNamespaceTemplate === undefined ? [] : NAMESPACE_PERMISSIONS;
    this.checkPermissions = createPermissionCheck({
      ...this.#shared,
      getFurtherPermissions: () => [...this.webhooks.listPermissions(), ...ofNamespaces],
    });
    this.ports = this.#makePorts();
    this.adapters = new Adapters(base, this);
    this.state.onChange(() => this.#idleCollector.restart());
    this.state.onChange((view) => this.report.removalsBlocked(view));
  }

  /** Starts to watch the objects of releases. Only the leader does, because it alone reports and repairs them. */
  watchReleases(): void {
    const { releases, scope } = this;
    this.watchedReleases = new WatchedReleases({ ...this.#shared, releases, scope });
  }

  /** Starts to watch the directories (`--watch-dirs`). */
  async watchFiles(): Promise<void> {
    if (!this.#shared.watchDirs) return;
    const files = new WatchedFiles({ ...this.#shared, dirs: resolveDirectories(this.#shared) });
    await this.scope.closeAtEnd(files).start();
  }

  /** Builds the queues of tasks, and connects them to metrics, statuses and the plan, which checks after each run what is due next. */
  #makeQueues(): Queues<Task> {
    const { clock, moduleQueues, retryMinMs: minMs, retryMaxMs: maxMs } = this.#shared;
    return taskQueues(() => this.ports, {
      clock,
      bounds: { minMs, maxMs },
      random: Math.random,
      slots: moduleQueues.slots,
      limits: this.rateLimits,
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
      report: this.report,
    });
  }

  /** Builds the watch of the ConfigMap. Stores accepted content only with `--invalid-config=last-good`. */
  #makeConfig(): WatchedConfig {
    const options = { ...this.#shared, name: this.#shared.configMap };
    const keepsAccepted = options.invalidConfig === "last-good";
    const accepted = keepsAccepted ? this.scope.closeAtEnd(new AcceptedConfig(options)) : undefined;
    return this.scope.closeAtEnd(new WatchedConfig({ ...options, accepted }));
  }

  /** Builds the watches of objects that kubernetes bindings of hooks select, with the permissions of the hook's module. */
  #makeBindings(): KubeBindings {
    return this.scope.closeAtEnd(new KubeBindings({ ...this.#shared, queues: this.queues }));
  }

  /** Builds the releases. They query the state whether a release has a module, and which objects must stay. */
  #makeReleases(): Releases {
    return this.scope.closeAtEnd(
      makeReleases(this.#shared, {
        report: this.report,
        ownRelease: () => this.config.ownerRelease,
        hasModule: (name) => {
          const module = this.state.view.tree.modules.find((each) => each.name === name);
          return module !== undefined && !isConfirmedMissing(module, this.#shared.clock);
        },
        hideOf: (release) => createSourceRedactor(this.state.values, camelCase(release)),
        keepsObjects: (release) => mustKeepObjects(this.state.view, this.state.values.config, release),
        mayMove: (release, to) => mayMoveNow(this.state, { release, to }),
      }),
    );
  }

  /** Creates a loader, which runs hook files with `--config`. */
  createLoader(): HookLoader {
    const { runs, filters } = this.#shared;
    const checkFilter = (filter: string): Promise<unknown> => filters.compile(filter);
    return new HookLoader({ ...runs, ...this.#shared, checkFilter });
  }

  /** Builds the ports, through which tasks use all other packages. */
  #makePorts(): Ports {
    const { clock, filters, patchClient, discovery, timeZone: zone } = this.#shared;
    const schedules = createSources({ clock, zone, queues: this.queues });
    return {
      ...this.#shared,
      queues: this.queues,
      watches: this.bindings,
      triggers: this.scope.closeAtEnd(this.webhooks.addHookWebhooks(schedules)),
      webhooks: this.webhooks.hooks,
      releases: this.releases,
      config: this.config,
      hookMetrics: this.hookMetrics,
      runHook,
      runScript: runEnabledScript,
      loader: this.createLoader(),
      applyObjects,
      patcher: { client: patchClient, discovery, filters, clock },
      contentOf: hashModuleFiles,
    };
  }

  /** Lists why bindings of the module's hooks (undefined: of global hooks) do not work. */
  #listHookIssues(module: string | undefined): string[] {
    const bindings = this.bindings.issues().filter((each) => each.module === module);
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
    if (module !== undefined) this.watchedReleases?.recordRelease(module);
    // The time of the next retry, and which tasks are blocked, change without a change of the state.
    if (mustRefresh) this.adapters.refresh();
    this.engine.check();
  }
}
