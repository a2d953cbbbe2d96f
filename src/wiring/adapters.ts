/** The operator's outputs: statuses, Events, metrics, HTTP port, debug socket. */

import { socketPaths } from "../config.ts";
import type { KubeBindings } from "../bindings/index.ts";
import {
  QueueFile,
  dumpQueues,
  renderQueues,
  servePage,
  servePublic,
  serveFirstUsableSocket,
} from "../debug/index.ts";
import type { Sources } from "../debug/index.ts";
import type { HelmInput, Releases } from "../helm/index.ts";
import { readOwnIdentity, type Leadership } from "../kube/index.ts";
import { sleep, type Debounce, type Scope } from "../lib/index.ts";
import { measure, type HookMetrics, type Metrics } from "../metrics/index.ts";
import type { Json, JsonObject, Module, Task } from "../model/index.ts";
import type { Queues } from "../queue/index.ts";
import { buildCrdRequest, type State } from "../state/index.ts";
import { EventWriter, StatusMirror, type OperatorEvent } from "../status/index.ts";
import type { WatchedConfig, WatchedReleases, Annotations } from "../triggers/index.ts";
import { Page } from "../ui/index.ts";
import { VERSION } from "../version.ts";
import type { Base } from "./base.ts";
import { previewStart } from "../preview/index.ts";
import { helmInput } from "../values/index.ts";

export interface AdapterParts {
  readonly state: State;
  readonly queues: Queues<Task>;
  readonly metrics: Metrics;
  readonly hookMetrics: HookMetrics;
  readonly releases: Releases;
  readonly config: WatchedConfig;
  readonly annotations: Annotations;
  readonly bindings: KubeBindings;
  /** Undefined before this operator leads. */
  readonly followed: () => WatchedReleases | undefined;
  /** A follower's answer to /readyz, which is the leader's. */
  readonly mirrored: () => Promise<{ status: number; text: string } | undefined>;
  /** The leader, while this operator waits for the lease. */
  readonly leader: () => string | undefined;
  readonly queryLeader: Leadership["requestFromLeader"];
  readonly idleMemory: Pick<Debounce, "restart">;
  readonly scope: Scope;
}

/** Longest time for the last statuses and Events at a stop. */
const LAST_WRITES_MS = 2000;

const QUEUE_FILE = "/tmp/addon-operator-queue";

/** Serves and writes what a running operator reports. */
export class Adapters {
  readonly #base: Base;
  readonly #parts: AdapterParts;
  readonly #mirror: StatusMirror;
  readonly #events: EventWriter;
  readonly #page: Page;
  /** Port of the HTTP server; 0 before `open`. */
  port = 0;
  readonly #queueFile: QueueFile;

  constructor(base: Base, parts: AdapterParts) {
    this.#base = base;
    this.#parts = parts;
    const { clock, namespace, settings, env, secrets } = base;
    this.#queueFile = new QueueFile(QUEUE_FILE, clock, () =>
      renderQueues(dumpQueues(parts.queues.views(), { now: clock.now(), secrets })),
    );
    const operatorName = settings.configMap;
    this.#mirror = new StatusMirror({
      ...base,
      operatorName,
      statusValues: settings.statusValues,
      identityOf: (module) => base.actors.describe(module),
      helmRelease: helmReleaseOf(env, namespace),
      onAnnotations: (module, ...seen) => parts.annotations.handleAnnotations(module, ...seen),
      onRunSeconds: (module, seconds) => parts.state.recordModule(module, "runSecondsRestored", seconds),
      onWrite: (kind, result) => {
        parts.idleMemory.restart();
        parts.metrics.add("statusWrites", { kind, result });
      },
      onSpecChanged: async () => void (await parts.config.refresh()),
    });
    this.#page = this.#makePage();
    parts.state.onChange(() => this.#page.notifyChange());
    const { name: instance } = readOwnIdentity(settings.pod);
    this.#events = new EventWriter({
      ...base,
      operatorName,
      instance,
      uidOf: (module) => this.#mirror.uidOf(module),
    });
  }

  /** Opens HTTP port and debug socket. */
  async open(): Promise<void> {
    const { settings, logger } = this.#base;
    const { scope, metrics, hookMetrics, state, queues } = this.#parts;
    const server = await servePublic(
      { address: settings.listenAddress, port: settings.listenPort },
      {
        ...this.#base,
        view: () => state.view,
        queues: () => queues.views(),
        metrics: (exposition) => metrics.bytes(exposition),
        hookMetrics: () => Promise.resolve(hookMetrics.text()),
        leaderReadiness: this.#parts.mirrored,
        leader: this.#parts.leader,
        queryLeader: this.#parts.queryLeader,
        page: settings.ui && settings.uiPort === 0 ? this.#page : undefined,
        onError: (error) => this.#base.failures.report("http", error),
      },
    );
    this.port = server.port;
    scope.addRelease(() => server.close());
    if (settings.ui && settings.uiPort !== 0) await this.#openPage();
    scope.addRelease(() => this.#page.close());
    logger.info("Listening", { address: settings.listenAddress, port: server.port });
    const socket = await serveFirstUsableSocket(socketPaths(settings), this.#sources(), logger);
    if (socket !== undefined) scope.addRelease(() => socket.close());
    measure(metrics, { ...this.#base, ...this.#parts });
  }

  /** Opens a separate server for the page. A follower proxies to the same port of the leader. */
  async #openPage(): Promise<void> {
    const { settings, failures } = this.#base;
    const { leader, scope } = this.#parts;
    const page = { page: this.#page, leader, queryLeader: (path: string) => this.#queryPage(path) };
    const server = await servePage(
      { address: settings.listenAddress, port: settings.uiPort },
      { ...page, onError: (error) => failures.report("http", error) },
    );
    scope.addRelease(() => server.close());
  }

  #queryPage(path: string): ReturnType<Leadership["requestFromLeader"]> {
    const { uiPort } = this.#base.settings;
    return this.#parts.queryLeader(path, uiPort === 0 ? undefined : uiPort);
  }

  /** Starts to write statuses; only the leader may. */
  startMirroring(): void {
    const { hub } = this.#base;
    const { scope, state, queues } = this.#parts;
    scope.addRelease(this.#mirror.watch(hub));
    this.#mirror.followState(state, queues);
  }

  /** Updates statuses and page after a change of the queues that is not part of the state. */
  refresh(): void {
    this.#mirror.update(this.#parts.state.view, this.#parts.queues.views());
    this.#page.notifyChange();
  }

  /** Updates queue file and page after a task was queued, run or removed. */
  queuesChanged(): void {
    this.#queueFile.scheduleWrite();
    this.#page.notifyChange();
  }

  /** Number of statuses and Events that are not written yet. */
  unwritten(): number {
    return this.#events.unwrittenCount + this.#mirror.unwritten();
  }

  /**
   * Writes what is pending, unless another operator leads by now (`leads` false), and stops. After LAST_WRITES_MS the next
   * leader must write the rest.
   */
  async flush(leads = true): Promise<void> {
    const done = new AbortController();
    const timeout = sleep(this.#base.clock, LAST_WRITES_MS, done.signal);
    if (leads) await Promise.race([this.#writePending(), timeout]);
    done.abort();
    this.#mirror.close();
    this.#events.close();
    await timeout;
  }

  async #writePending(): Promise<void> {
    await this.#mirror.flush();
    await this.#events.flush();
  }

  announce(event: OperatorEvent): void {
    this.#events.record(event);
  }

  /** The web page, which reads state and queues when it is displayed. */
  #makePage(): Page {
    const { clock, secrets, settings, namespace } = this.#base;
    const { state, queues } = this.#parts;
    return new Page({
      clock,
      secrets,
      about: { version: VERSION, name: settings.configMap, namespace },
      snapshot: () => ({ view: state.view, queues: queues.views() }),
      statusValues: settings.statusValues,
      statusOf: (module) => this.#mirror.statusOf(module),
      originsOf: (section) => state.values.explain(section),
      runs: this.#base.runRing,
      diff: (module, displayed) => this.#diff(module, displayed),
    });
  }

  /** The difference between the objects in the cluster and those that the next run would apply, as text. */
  #diff(module: Module, redact: (object: JsonObject) => Json): Promise<string> {
    const { state, releases } = this.#parts;
    const record = state.module(module.name) ?? { module, confirmedCrds: undefined };
    return releases.diff({
      ...this.#helmRequest(module),
      crds: buildCrdRequest(state.values, record),
      redact,
    });
  }

  /** The input of helm for the module, for displaying: nothing interrupts it. */
  #helmRequest(module: Module): HelmInput & { readonly signal: AbortSignal } {
    return { ...helmInput(this.#parts.state.values, module), signal: new AbortController().signal };
  }

  /** What the debug socket answers from. */
  #sources(): Sources {
    const { state, queues, bindings, releases, followed, metrics } = this.#parts;
    const { clock, secrets, sink, failures, runRing, settings } = this.#base;
    return {
      version: VERSION,
      leader: this.#parts.leader,
      queryLeader: (path) => this.#queryPage(path),
      clock,
      secrets,
      state,
      queues: () => queues.views(),
      snapshots: (hookId) => bindings.dump(hookId) as unknown as Json,
      render: (module, diff) => releases.renderManifests(this.#helmRequest(module), diff),
      diff: (module) => this.#diff(module, (object) => object),
      page: this.#page,
      watchedObjects: (module) => followed()?.getObjectNames(module),
      rollbackTarget: (module, revision) => releases.findRollbackTarget(module, revision),
      plan: () => previewStart(this.#base, releases, state),
      runs: runRing,
      moduleSourceState: () => this.#base.registryModules?.describe?.(),
      platformInfo: () => ({
        settings: settings as unknown as Json,
        node: process.version,
        platform: `${process.platform} ${process.arch}`,
      }),
      metrics: () => metrics.text(),
      log: sink,
      onError: (error) => failures.report("debug socket", error),
    };
  }
}

/** The operator's own release, if its chart names it. */
function helmReleaseOf(env: Base["env"], namespace: string): { name: string; namespace: string } | undefined {
  const name = env["ADDON_OPERATOR_RELEASE_NAME"];
  return name === undefined ? undefined : { name, namespace };
}
