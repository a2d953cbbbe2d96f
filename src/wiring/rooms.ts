/** Builds the rooms of an operator and connects them. */

import { KubeBindings, makeSources, type Source } from "../bindings/index.ts";
import type { Releases } from "../helm/index.ts";
import { HookLoader, applyObjects, runEnabledScript, runHook } from "../hooks/index.ts";
import { Leadership, serverVersion } from "../kube/index.ts";
import { idleMemory, type Quiet, type Scope } from "../lib/index.ts";
import {
  HookMetrics,
  Metrics,
  bindingTimes,
  configTeller,
  countDroppedTick,
  driftTeller,
  hasHook,
  healthTeller,
  holdTeller,
  makeHelmRecorder,
  makeRecorder,
} from "../metrics/index.ts";
import type { RecorderParts } from "../metrics/index.ts";
import { moduleOf, type Task } from "../model/index.ts";
import { contentOf, placesOf } from "../modules/index.ts";
import { reportChildren } from "../process/index.ts";
import { Engine } from "../plan/index.ts";
import { RateLimits, type Queues } from "../queue/index.ts";
import { State } from "../state/index.ts";
import type { OperatorEvent } from "../status/index.ts";
import { taskQueues, type Ports } from "../tasks/index.ts";
import {
  AcceptedConfig,
  FollowedConfig,
  FollowedReleases,
  Requests,
  RequiredObjects,
  WatchedFiles,
} from "../triggers/index.ts";
import { countDrops, makeReleases, type Base } from "./base.ts";
import { Adapters } from "./adapters.ts";

interface RoomsOptions {
  readonly scope: Scope;
  readonly biteMs: number;
  readonly onLost: (reason: string) => void;
}

/** The rooms of an operator, built by hand and connected: whoever follows one of them learns what changes in it. */
export class Rooms {
  readonly state: State;
  readonly queues: Queues<Task>;
  readonly engine: Engine;
  readonly metrics: Metrics;
  readonly leadership: Leadership;
  readonly config: FollowedConfig;
  readonly releases: Releases;
  readonly ports: Ports;
  readonly adapters: Adapters;
  readonly #base: Base;
  readonly #scope: Scope;
  readonly #hookMetrics: HookMetrics;
  readonly #memory: Quiet;
  readonly #bindings: KubeBindings;
  #followed: FollowedReleases | undefined;

  /** Whatever they acquire is released with the scope. */
  constructor(base: Base, { scope, biteMs, onLost }: RoomsOptions) {
    this.#base = base;
    this.#scope = scope;
    const { clock, failures, secrets, settings } = base;
    const prefix = settings.metricsPrefix;
    this.metrics = new Metrics(prefix);
    reportChildren(failures);
    countDrops(base.spanExport, this.metrics);
    failures.onFailure = (place) => this.metrics.add("internalErrors", { place });
    this.#hookMetrics = new HookMetrics(prefix, (owner) => hasHook(this.state, owner));
    this.state = new State({ ...settings, clock, secrets });
    const { configMap, moduleQueues, invalidConfig } = settings;
    const operator = { name: configMap, namespace: this.#base.namespace };
    this.state.record({ operator, moduleQueues, invalidConfig });
    this.#memory = idleMemory(clock);
    scope.own(new RequiredObjects({ ...base, state: this.state }));
    this.leadership = new Leadership({ ...base, biteMs, onLost });
    this.queues = this.#makeQueues();
    this.engine = new Engine(this.state, this.queues);
    this.config = this.#makeConfig();
    this.#bindings = this.#makeBindings();
    this.releases = this.#makeReleases();
    this.ports = this.#makePorts();
    this.adapters = new Adapters(base, {
      state: this.state,
      queues: this.queues,
      metrics: this.metrics,
      releases: this.releases,
      config: this.config,
      requests: new Requests({ state: this.state, config: this.config, logger: base.logger }),
      healing: () => this.#followed?.healing,
      hookMetrics: this.#hookMetrics,
      bindings: this.#bindings,
      mirrored: () => this.leadership.mirrored(),
      leader: () => this.leadership.leader,
      askLeader: (path, port) => this.leadership.ask(path, port),
      scope,
    });
    this.state.onChange(holdTeller(this.#told));
  }

  /** From now on the objects of releases are watched. */
  follow(): void {
    const tellHealth = healthTeller(this.#told);
    this.#followed = new FollowedReleases({
      ...this.#base,
      state: this.state,
      releases: this.releases,
      scope: this.#scope,
      healthTimeoutMs: this.#base.settings.healthTimeoutMs,
      drift: this.#base.settings.drift,
      onDrift: driftTeller(this.#told),
      onHealth: (module, health) => {
        tellHealth(module, health);
        const record = this.state.module(module);
        if (record !== undefined) this.releases.noteHealth(record.module, record.health);
      },
      onAbsent: (module, object) => this.metrics.add("absent", { module, resource: object }),
    });
  }

  /** From now on, changes in the directories are noticed. */
  async watchFiles(): Promise<void> {
    const { settings } = this.#base;
    if (!settings.watchDirs) return;
    const files = new WatchedFiles({
      ...this.#base,
      state: this.state,
      places: placesOf(settings),
      onLook: ({ watched, polls }) => {
        this.metrics.set("watchedDirs", {}, watched);
        this.metrics.set("polledDirs", {}, polls ? 1 : 0);
      },
    });
    await this.#scope.own(files).start();
  }

  #makeQueues(): Queues<Task> {
    const { clock, settings } = this.#base;
    return taskQueues(() => this.ports, {
      clock,
      bounds: { minMs: settings.retryMinMs, maxMs: settings.retryMaxMs },
      random: Math.random,
      slots: settings.parallelModules,
      limits: new RateLimits(clock),
      onChange: () => {
        this.#memory.touch();
        this.adapters.queuesChanged();
      },
      onEnd: (batch, outcome, { failures }) => this.#ended(batch, failures > 0 || outcome.kind === "retry"),
      onDrop: (queue, task) => countDroppedTick(this.metrics, queue, task),
      onAction: (queue, action, ms) =>
        this.metrics.observe("queueAction", { queue_name: queue, queue_action: action }, ms / 1000),
    });
  }

  #makeConfig(): FollowedConfig {
    const { configMap: name, invalidConfig } = this.#base.settings;
    const accepted = invalidConfig === "last-good" ? new AcceptedConfig({ ...this.#base, name }) : undefined;
    return this.#scope.own(
      new FollowedConfig({
        ...this.#base,
        state: this.state,
        name,
        accepted: accepted && this.#scope.own(accepted),
        onTrouble: configTeller(this.#told),
      }),
    );
  }

  #makeBindings(): KubeBindings {
    return this.#scope.own(
      new KubeBindings({
        ...this.#base,
        keepManagedFields: this.#base.settings.keepManagedFields,
        queues: this.queues,
        onTrouble: (hook, binding, message) => {
          if (message !== undefined) this.metrics.add("bindingMissing", { binding: binding.name });
          this.#noteTroubles(hook.module);
        },
        times: (hook, binding) => bindingTimes(this.metrics, hook, binding),
      }),
    );
  }

  #makeSources(): Source {
    const { clock, env } = this.#base;
    const zone = env["TZ"] ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
    return this.#scope.own(makeSources({ clock, zone, queues: this.queues }));
  }

  #makeReleases(): Releases {
    return this.#scope.own(
      makeReleases(this.#base, {
        recorder: makeHelmRecorder(this.#told),
        ownRelease: () => this.config.release,
        onCrds: () => this.#bindings.kindsChanged(),
      }),
    );
  }

  /** Connects the ports of tasks to the rooms behind them. */
  #makePorts(): Ports {
    const { clock, logger, tracer, settings, runs, filters, client, patchClient, discovery } = this.#base;
    const { retryMinMs, deleteBrake, moduleQueues } = settings;
    const checkFilter = (filter: string): Promise<unknown> => filters.compile(filter);
    return {
      state: this.state,
      queues: this.queues,
      clock,
      logger,
      tracer,
      retryMinMs,
      deleteBrake,
      watches: this.#bindings,
      sources: this.#makeSources(),
      releases: this.releases,
      config: this.config,
      recorder: makeRecorder(this.#told),
      hookMetrics: this.#hookMetrics,
      runs,
      restoreChart: this.#base.restoreChart,
      runHook,
      runScript: runEnabledScript,
      loader: new HookLoader({ ...runs, moduleQueues, checkFilter, clock, logger }),
      applyObjects,
      patcher: { client: patchClient, discovery, filters, clock },
      serverVersion: (signal) => serverVersion(client, signal),
      readTree: this.#base.readTree,
      rereadModule: this.#base.rereadModule,
      contentOf,
    };
  }

  /** What recorders read, and where they report to. */
  get #told(): RecorderParts {
    const announce = (event: OperatorEvent): void => this.adapters.announce(event);
    return { metrics: this.metrics, state: this.state, announce, logger: this.#base.logger };
  }

  #noteTroubles(module: string | undefined): void {
    const own = this.#bindings.troubles().filter((each) => each.module === module);
    const troubles = own.map((each) => `hook ${each.hook}, binding ${each.binding}: ${each.message}`);
    this.state.recordTroubles(module, troubles);
  }

  /** After a run: watches the objects that its release has now. */
  #ended(batch: readonly Task[], hasFailed: boolean): void {
    const [task] = batch;
    const module = task === undefined || task.kind === "hook" ? undefined : moduleOf(task);
    if (module !== undefined) this.#followed?.look(module);
    // When the next try is, what waits behind a failure, and that it is over, change though nothing was recorded.
    if (hasFailed) this.adapters.showAgain();
    this.engine.look();
  }
}
