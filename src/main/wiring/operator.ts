/** The lifecycle of an operator, from the first contact to an orderly stop. `base` and `components` are its parts; aborting `stop` requests the end. */

import { LEASE_GRACE_MS, type Environment, sourceKeysConfigMap } from "../../config/settings/index.ts";
import { applyOwnCrds, locationsSecretName, type Releases } from "../../helm/index.ts";
import { RedactionKey, checkConnection, redactionSecretName } from "../../kube/index.ts";
import { Timers, type Failures, type Scope } from "../../base/index.ts";
import {
  endOwnProcesses,
  ensureTempDir,
  isLibcUnavailable,
  removeStaleDirs,
} from "../../base/process/index.ts";
import type { Settings } from "../../config/settings/index.ts";
import { ProblemError, type Problem } from "../../base/model/index.ts";
import { reportTree } from "../../modules/index.ts";
import { explainInvalid, type State } from "../../engine/state/index.ts";
import { checkSchemas, loadHooks, type Ports } from "../../engine/tasks/index.ts";
import type { WatchedConfig } from "../../config/index.ts";
import { makeBase, type Base } from "./base.ts";
import type { ModuleSources } from "../../sources/index.ts";
import { Components } from "./components.ts";
import { keepSecrets } from "./kept-secrets.ts";
import { join } from "node:path";
import { explain } from "../../report/index.ts";

/** How long child processes may end by themselves after the lease is lost, before they are killed: another operator may begin after `LEASE_GRACE_MS`. */
const CHILDREN_GRACE_MS = LEASE_GRACE_MS - 1000;
/** When the watchdog kills the operator itself, if it has not stopped after the loss of the lease. */
const LEASE_EXPIRE_MS = LEASE_GRACE_MS - 500;
/** When the operator checks its permissions: later than a usual start, which some dozen requests would delay. */
const PERMISSION_CHECK_AFTER_MS = 2000;
/** Longest time for the last statuses and Events where another replica waits, which takes over within a second. */
const HANDOVER_WRITES_MS = 500;

export interface OperatorOptions {
  readonly settings: Settings;
  readonly env: Environment;
  /** Releases everything acquired, last in first out. */
  readonly scope: Scope;
  readonly stop: AbortController;
}

/** The lifecycle of one operator: connects, acquires the lease, loads modules and ConfigMap, works, and stops. */
export class Operator {
  readonly #options: OperatorOptions;
  readonly #base: Base;
  #components: Components | undefined;
  /** Modules from registries; undefined while `--sources` is off. */
  #moduleSources: ModuleSources | undefined;
  /** Grace period of running work at a stop; 0 after the lease is lost. */
  #graceMs: number;

  constructor(options: OperatorOptions) {
    this.#options = options;
    this.#graceMs = options.settings.shutdownTimeoutMs;
    this.#base = makeBase(options.settings, options.env, options.scope);
  }

  /** Receives errors of background work. */
  get failures(): Failures {
    return this.#base.failures;
  }

  /** Counts the work that a stop waits for: running queues, and pending statuses and Events. */
  pendingWork(): { running: number; unwritten: number } {
    return {
      running: this.#components?.queues.running ?? 0,
      unwritten: this.#components?.adapters.countUnwritten() ?? 0,
    };
  }

  /** Starts, works, and resolves after a request to stop or when the lease is lost. Throws ProblemError if it refuses to start. */
  async run(): Promise<void> {
    const { signal } = this.#options.stop;
    const started = this.#start(signal);
    // After a stop request the start continues in the background until everything is closed, and then fails.
    started.catch(() => {});
    await Promise.race([started, whenAborted(signal)]); // Throws if the start fails.
    await whenAborted(signal);
  }

  /** Connects, builds the components, acquires the lease, loads modules and ConfigMap, and starts to work. */
  async #start(signal: AbortSignal): Promise<void> {
    const { client, clock, logger, settings, namespace } = this.#base;
    ensureTempDir(settings.tmpDir);
    await removeStaleDirs(settings.tmpDir, clock);
    await Promise.all([checkConnection(client, signal), this.#base.actors.checkUserIds()]);
    logger.info("Connected", { server: client.credentialsInfo.server, namespace });
    const components = new Components(this.#base, this.#options.scope, {
      expireMs: LEASE_EXPIRE_MS,
      onLost: (reason) => this.#stopAfterLostLease(reason),
    });
    this.#components = components;
    await components.adapters.open();
    await components.webhooks.start();
    await this.#acquireLeaseAndLoad(components);
    signal.throwIfAborted();
    await this.#startWorking(components, signal);
  }

  /**
   * Stops: starts no new work, lets running work end within the grace period, writes statuses, and releases the lease at last,
   * because the next leader starts its work then.
   */
  async stop(): Promise<void> {
    this.#components?.engine.stop();
    await this.#components?.queues.stop(this.#graceMs);
    await this.#base.actors.waitForRevocations();
    await this.#components?.webhooks.stop();
    await this.#endChildren();
    const mayTakeMs = this.#options.settings.ha ? HANDOVER_WRITES_MS : undefined;
    await this.#components?.adapters.flush(this.#components.leadership.isLeader, mayTakeMs);
    await this.#components?.leadership.release();
  }

  /** Acquires the lease, and loads modules and global hooks, which must be valid before anything runs. A warm standby loads caches first. */
  async #acquireLeaseAndLoad(components: Components): Promise<void> {
    const { ports, releases, leadership, adapters } = components;
    const { settings, stop } = this.#options;
    const { clock } = this.#base;
    // Also while it waits for the lease, because the permission on leases may be missing.
    new Timers(clock).set("check", PERMISSION_CHECK_AFTER_MS, () => void components.checkPermissions());
    // The key of placeholders for secrets, equal in all replicas.
    const key = new RedactionKey({ ...this.#base, secret: redactionSecretName(settings.configMap) });
    const moduleSources = await makeModuleSources(this.#base, components, this.#options.scope);
    // With `--ha`, a standby loads modules and releases before it gets the lease, so that it can take over fast.
    if (settings.ha) {
      await moduleSources?.prepare();
      moduleSources?.startStandby();
      await Promise.all([
        warmCaches(this.#base, ports),
        releases.observed.waitUntilReady(),
        key.read(),
        askForHelmVersion(releases),
      ]);
    }
    await leadership.acquire(adapters.port, stop.signal);
    // Leftovers of a leader that was killed on this machine while this operator waited.
    await removeStaleDirs(settings.tmpDir, clock);
    this.#moduleSources = moduleSources;
    const { scope } = this.#options;
    const crds = settings.manageCrds ? applyOwnCrds({ ...this.#base, scope }) : Promise.resolve();
    await Promise.all([
      crds,
      key.ensure(),
      this.#readFiles(components, crds),
      components.webhooks.becomeLeader(),
      endOrphansAndReadReleases(releases, stop.signal),
    ]);
    const restores = new Map([
      [redactionSecretName(settings.configMap), () => key.restore()],
      [locationsSecretName(settings.configMap), () => releases.store.restoreLocations()],
    ]);
    keepSecrets(restores, { ...this.#base, scope });
  }

  /** Reads the module directories, after the module sources have prepared theirs. `crds` resolves when the operator's CRDs exist. */
  async #readFiles(components: Components, crds: Promise<void>): Promise<void> {
    await this.#moduleSources?.prepare(crds);
    // Watch before reading, so that no change is missed.
    await components.watchFiles();
    await loadEverything(this.#base, components.state, components.ports);
  }

  /** Applies the ConfigMap and starts the watches. From then on, the plan decides which tasks run. */
  async #startWorking(components: Components, signal: AbortSignal): Promise<void> {
    const { state, ports, config, adapters } = components;
    try {
      await loadConfig(state, config, ports);
    } catch (error) {
      // Invalid content is reported on the AddonOperator before the operator exits.
      adapters.startStatusWrites();
      await adapters.flush();
      throw error;
    }
    // Statuses display the accepted content of the ConfigMap, which is known only from here on.
    adapters.startStatusWrites();
    await config.watch();
    signal.throwIfAborted();
    components.watchReleases();
    this.#moduleSources?.startLeading();
    this.#base.actors.revokeFormerTokens(state.tree.modules);
    state.record("bootPhaseReached", "waiting"); // Makes the first task due.
  }

  /** Stops after the lease is lost. Ends child processes at once, because another operator may soon start its own. */
  #stopAfterLostLease(reason: string): void {
    this.#base.logger.error("The lease is lost; stopping", { reason });
    this.#graceMs = 0;
    this.#options.stop.abort(new Error("lost the lease"));
    void this.#endChildren();
  }

  /** Ends all child processes, including background processes of hooks, and starts no more. */
  async #endChildren(): Promise<void> {
    const { children, settings, clock } = this.#base;
    children.startOnlyWhile(() => false);
    const graceMs = CHILDREN_GRACE_MS;
    const endBackgroundProcesses = endOwnProcesses(settings.tmpDir, { clock, graceMs });
    await Promise.all([children.endAll(graceMs), endBackgroundProcesses]);
  }
}

/** Ends helm processes of a former leader, and reads the releases. Meanwhile helm tells its version, for which the first run would wait. */
async function endOrphansAndReadReleases(releases: Releases, signal: AbortSignal): Promise<void> {
  await releases.helm.endOrphanedProcesses(signal);
  // Not before, because it would end this process, too.
  void askForHelmVersion(releases);
  await releases.observed.waitUntilReady();
}

/** Has the version of helm known before it is needed. Ignores an unusable helm, because the first run reports it. */
async function askForHelmVersion({ helm }: Releases): Promise<void> {
  await helm.getVersion().catch(() => {});
}

/** Resolves when the signal is aborted, or at once if it is. */
function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** Reads the directories and loads the global hooks, which must be valid before anything runs. Throws ProblemError with every problem found. */
async function loadEverything(base: Base, state: State, ports: Ports): Promise<void> {
  if (isLibcUnavailable())
    base.logger.warn("koffi cannot be loaded: hooks start slower and cannot open /dev/stdout or /dev/stderr");
  const tree = await base.reader.readTree();
  reportTree(base.logger, tree);
  const { hooks, problems } = await loadHooks(ports, tree.globalHookFiles, undefined);
  throwProblems([...tree.problems, ...problems]);
  checkSchemas(ports, tree.globalSchemas); // Logs their warnings. Errors are in `tree.problems`.
  state.recordTree(tree);
  state.recordGlobalHooks(hooks);
}

/** Fills the caches of files and hook configurations, so that a standby can take over fast. Ignores problems: the start reports them later. */
async function warmCaches(base: Base, ports: Ports): Promise<void> {
  const tree = await base.reader.readTree();
  await loadHooks(ports, tree.globalHookFiles, undefined);
  for (const module of tree.modules) await loadHooks(ports, module.hookFiles, module.name);
}

/**
 * Reads the ConfigMap. Creates a missing one at a first start only: if the operator has releases, a user has deleted it, and an empty one would disable
 * modules. Refuses an invalid one, unless content that was accepted before is stored. Throws ProblemError.
 */
async function loadConfig(state: State, config: WatchedConfig, ports: Ports): Promise<void> {
  await config.moveOverlay(); // From a ConfigMap of a former version into the Secret of the same name.
  const exists = await config.refresh();
  if (!exists && ports.releases.observed.hasOwnReleases()) {
    config.reportMissingAtStart();
    return;
  }
  if (!exists) await config.createEmpty();
  if (state.view.config.condition !== "invalid" || (await config.applyAcceptedContent())) return;
  const file = `ConfigMap ${config.name}`;
  throwProblems([...state.view.config.problems, { file, message: explainInvalid(state.view) }]);
}

/** Throws a ProblemError with all problems, if there are any. */
function throwProblems(problems: readonly Problem[]): void {
  if (problems.length > 0) throw new ProblemError(...problems);
}

/** Builds the module sources, which fetch modules from registries; undefined if `--sources` is off. */
async function makeModuleSources(
  base: Base,
  components: Components,
  scope: Scope,
): Promise<ModuleSources | undefined> {
  const { settings, registryModules, namespace } = base;
  const { state, queues, metrics, report, releases, adapters } = components;
  if (registryModules === undefined) return undefined;
  const { ModuleSources } = await import("../../sources/index.ts");
  const { configMap, tmpDir, sourcesDir, sourcesMaxBytes: maxBytes, unsignedCharts = [] } = settings;
  return scope.closeAtEnd(
    new ModuleSources({
      ...base,
      registryModules,
      // New content is loaded once: a loader of its own remembers nothing of it.
      loadHook: (file, module) => components.createLoader().load(file, module),
      state,
      explain: () => explain({ view: state.view, queues: queues.views() }, base.clock.now()),
      metrics,
      report,
      releases,
      configMap,
      maxBytes,
      unsignedCharts,
      // Operators of one user share the directory for temporary files.
      dir: sourcesDir ?? join(tmpDir, "sources", `${namespace}-${configMap}`),
      keysConfigMap: sourceKeysConfigMap(settings) ?? "",
      statuses: adapters.statusMirror,
    }),
  );
}
