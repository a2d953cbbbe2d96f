/**
 * Builds the operator's outputs: statuses, Events, metrics, HTTP port, debug socket, and the web page. `base` is what all packages share, such as
 * settings, clock and API client; `parts` are the parts of the operator.
 */

import { socketPaths } from "../../config/settings/index.ts";
import type { KubeBindings } from "../../hooks/bindings/index.ts";
import {
  QueueFile,
  dumpQueues,
  renderQueues,
  servePage,
  servePublic,
  serveFirstUsableSocket,
} from "../../surface/debug/index.ts";
import type { DebugSources } from "../../surface/debug/index.ts";
import type { HelmInput, Releases } from "../../helm/index.ts";
import { readOwnIdentity, type Leadership } from "../../kube/index.ts";
import { sleep, type Scope } from "../../base/index.ts";
import {
  connectMetrics,
  type HookMetricScopes,
  type Metrics,
  type Report,
} from "../../report/metrics/index.ts";
import type { Json, JsonObject, Module, Task } from "../../base/model/index.ts";
import type { Queues } from "../../engine/queue/index.ts";
import { buildCrdRequest, type State } from "../../engine/state/index.ts";
import { EventWriter, StatusMirror, type OperatorEvent, type Projection } from "../../report/index.ts";
import { Annotations, type WatchedConfig } from "../../config/index.ts";
import { type WatchedReleases } from "../../releases/index.ts";
import { Page } from "../../surface/ui/index.ts";
import { VERSION } from "../../config/settings/index.ts";
import type { Base } from "./base.ts";
import { previewStart } from "../../surface/preview/index.ts";
import { buildHelmInput } from "../../values/index.ts";

/** The parts of the operator that the outputs show. */
interface AdapterParts {
  readonly state: State;
  readonly queues: Queues<Task>;
  readonly metrics: Metrics;
  readonly hookMetrics: HookMetricScopes;
  readonly releases: Releases;
  readonly config: WatchedConfig;
  readonly bindings: KubeBindings;
  /** The objects of releases; undefined before this operator is the leader. */
  readonly watchedReleases: WatchedReleases | undefined;
  readonly leadership: Leadership;
  readonly report: Report;
  readonly scope: Scope;
}

/** Longest time for the last statuses and Events at a stop: Kubernetes kills the Pod at the end of its grace period. */
const LAST_WRITES_MS = 2000;

const QUEUE_FILE = "/tmp/addon-operator-queue";

/** Serves and writes everything that a running operator reports to users. */
export class Adapters {
  readonly #base: Base;
  readonly #parts: AdapterParts;
  /** Writes the statuses of all kinds. */
  readonly statusMirror: StatusMirror;
  readonly #events: EventWriter;
  readonly #page: Page;
  /** Port of the HTTP server; 0 before `open`. */
  port = 0;
  readonly #queueFile: QueueFile;

  /** Builds the outputs and connects them to the state; `open` opens the ports. */
  constructor(base: Base, parts: AdapterParts) {
    this.#base = base;
    this.#parts = parts;
    const { clock, logger, namespace, settings, env, secrets } = base;
    const { state, config, report } = parts;
    this.#queueFile = new QueueFile(QUEUE_FILE, clock, () =>
      renderQueues(dumpQueues(parts.queues.views(), { now: clock.now(), secrets })),
    );
    const operatorName = settings.configMap;
    // Writes statuses, and reads what users and earlier processes have written into the resources: annotations, durations of runs.
    this.statusMirror = new StatusMirror({
      ...base,
      operatorName,
      statusValues: settings.statusValues,
      helmRelease: readOwnRelease(env, namespace),
      annotations: new Annotations({ state, config, logger }),
      config,
      report,
    });
    this.#page = this.#makePage();
    state.onChange(() => this.#page.notifyChange());
    const { name: instance } = readOwnIdentity(settings.pod);
    this.#events = new EventWriter({
      ...base,
      operatorName,
      instance,
      uidOf: (module) => this.statusMirror.uidOf(module),
    });
  }

  /** Opens the HTTP port, which a standby serves, too, the debug socket and the page. Throws ProblemError if a port is in use. */
  async open(): Promise<void> {
    const { settings, logger } = this.#base;
    const { scope, metrics, hookMetrics, state, queues, leadership } = this.#parts;
    const address = { address: settings.listenAddress, port: settings.listenPort };
    const server = await servePublic(address, {
      ...this.#base,
      view: () => state.view,
      queues: () => queues.views(),
      metrics: (exposition) => metrics.renderBytes(exposition),
      hookMetrics: () => Promise.resolve(hookMetrics.renderText()),
      leaderReadiness: () => leadership.getFollowerReadiness(),
      leader: () => leadership.leaderIdentity,
      queryLeader: (path) => leadership.requestFromLeader(path),
      page: settings.ui && settings.uiPort === 0 ? this.#page : undefined,
      onError: (error) => this.#base.failures.report("http", error),
    });
    this.port = server.port;
    scope.addRelease(() => server.close());
    if (settings.ui && settings.uiPort !== 0) await this.#openPage();
    scope.addRelease(() => this.#page.close());
    logger.info("Listening", { address: settings.listenAddress, port: server.port });
    const socket = await serveFirstUsableSocket(socketPaths(settings), this.#debugSources(), logger);
    if (socket !== undefined) scope.addRelease(() => socket.close());
    connectMetrics(metrics, { ...this.#base, ...this.#parts });
  }

  /** Opens the page on a port of its own (`--ui-port`). A follower proxies to the same port of the leader. */
  async #openPage(): Promise<void> {
    const { settings, failures } = this.#base;
    const { leadership, scope } = this.#parts;
    const address = { address: settings.listenAddress, port: settings.uiPort };
    const server = await servePage(address, {
      page: this.#page,
      leader: () => leadership.leaderIdentity,
      queryLeader: (path) => this.#queryPage(path),
      onError: (error) => failures.report("http", error),
    });
    scope.addRelease(() => server.close());
  }

  /** Requests a path of the page from the leader, at the port on which the leader serves the page. */
  #queryPage(path: string): ReturnType<Leadership["requestFromLeader"]> {
    const { uiPort } = this.#base.settings;
    return this.#parts.leadership.requestFromLeader(path, uiPort === 0 ? undefined : uiPort);
  }

  /** Starts to write statuses; only the leader may. */
  startStatusWrites(): void {
    const { hub } = this.#base;
    const { scope, state, queues } = this.#parts;
    scope.addRelease(this.statusMirror.watch(hub));
    this.statusMirror.followState(state, queues);
  }

  /** Updates statuses and page after a change of the queues that they display: on their own, they only follow changes of the state. */
  refresh(): void {
    const { state, queues } = this.#parts;
    this.statusMirror.update({ view: state.view, queues: queues.views() });
    this.#page.notifyChange();
  }

  /** Updates queue file and page after a task was queued, run or removed. */
  handleQueueChange(): void {
    this.#queueFile.scheduleWrite();
    this.#page.notifyChange();
  }

  /** Number of statuses and Events that are not written yet. */
  countUnwritten(): number {
    return this.#events.unwrittenCount + this.statusMirror.unwritten();
  }

  /**
   * Writes pending statuses and Events, unless another operator is the leader by now, and stops. Gives up after `mayTakeMs`:
   * the next leader writes the rest.
   */
  async flush(isLeader = true, mayTakeMs = LAST_WRITES_MS): Promise<void> {
    if (isLeader) {
      const timeoutAbort = new AbortController();
      const timeout = sleep(this.#base.clock, mayTakeMs, timeoutAbort.signal);
      const allWritten = this.statusMirror.flush().then(() => this.#events.flush());
      await Promise.race([allWritten, timeout]);
      timeoutAbort.abort(); // Ends the timer.
    }
    this.statusMirror.close();
    this.#events.close();
  }

  /** Queues an Event of Kubernetes to be written. */
  announce(event: OperatorEvent): void {
    this.#events.record(event);
  }

  /** Builds the server side of the web page, which reads state and queues at each request. */
  #makePage(): Page {
    const { clock, secrets, settings, namespace } = this.#base;
    const { state } = this.#parts;
    return new Page({
      clock,
      secrets,
      about: { version: VERSION, name: settings.configMap, namespace },
      project: () => this.#project(),
      statusValues: settings.statusValues,
      originsOf: (section) => state.values.explainSection(section),
      runs: this.#base.runRing,
      diff: (module, redact) => this.#renderDiff(module, redact),
    });
  }

  /** Projects the state and the queues of this moment to the content of the AddonOperator and of all AddonModules. */
  #project(): Projection {
    const { state, queues } = this.#parts;
    return this.statusMirror.project({ view: state.view, queues: queues.views() });
  }

  /** Renders the difference between the objects in the cluster and the objects that the next run would apply, as text. */
  #renderDiff(module: Module, redact: (object: JsonObject) => Json): Promise<string> {
    const { state, releases } = this.#parts;
    const record = state.module(module.name) ?? { module, confirmedCrds: undefined };
    const crds = buildCrdRequest(state.values, record);
    return releases.diff({ ...this.#helmRequest(module), crds, redact });
  }

  /** The input of helm for a module, to render it on request of a user. The signal is never aborted, because no task waits for it. */
  #helmRequest(module: Module): HelmInput & { readonly signal: AbortSignal } {
    return { ...buildHelmInput(this.#parts.state.values, module), signal: new AbortController().signal };
  }

  /** The data and functions from which the debug socket answers. */
  #debugSources(): DebugSources {
    const { state, queues, bindings, releases, metrics } = this.#parts;
    const { clock, secrets, sink, failures, runRing, settings } = this.#base;
    return {
      version: VERSION,
      leader: () => this.#parts.leadership.leaderIdentity,
      queryLeader: (path) => this.#queryPage(path),
      clock,
      secrets,
      state,
      queues: () => queues.views(),
      project: () => this.#project(),
      snapshots: (hookId) => bindings.dump(hookId) as unknown as Json,
      render: (module, diff) => releases.renderManifests(this.#helmRequest(module), diff),
      diff: (module) => this.#renderDiff(module, (object) => object),
      page: this.#page,
      watchedObjects: (module) => this.#parts.watchedReleases?.getObjectNames(module),
      rollbackTarget: (module, revision) => releases.findRollbackTarget(module, revision),
      plan: () => previewStart(this.#base, releases, state),
      runs: runRing,
      moduleSourceState: () => this.#base.registryModules?.describeSources?.(),
      platformInfo: () => ({
        settings: settings as unknown as Json,
        node: process.version,
        platform: `${process.platform} ${process.arch}`,
      }),
      metrics: () => metrics.renderText(),
      log: sink,
      onError: (error) => failures.report("debug socket", error),
    };
  }
}

/** The operator's own Helm release, if its chart has set the variable with the name. */
function readOwnRelease(
  env: Base["env"],
  namespace: string,
): { name: string; namespace: string } | undefined {
  const name = env["ADDON_OPERATOR_RELEASE_NAME"];
  return name === undefined ? undefined : { name, namespace };
}
