/** Everything that shows the operator to others: statuses, Events, metrics, HTTP port, debug socket. */

import { socketPlaces } from "../config.ts";
import type { KubeBindings } from "../bindings/index.ts";
import { QueueFile, dumpQueues, queueText, servePage, servePublic, serveSocketAt } from "../debug/index.ts";
import type { Sources } from "../debug/index.ts";
import type { HelmInput, Releases } from "../helm/index.ts";
import { ownIdentity, type Leadership } from "../kube/index.ts";
import { sleep, type Scope } from "../lib/index.ts";
import { measure, type HookMetrics, type Metrics } from "../metrics/index.ts";
import type { Json, JsonObject, Module, Task } from "../model/index.ts";
import type { Queues } from "../queue/index.ts";
import { crdRequest, remembering, type State } from "../state/index.ts";
import { EventWriter, StatusMirror, watchOwnObjects, type OperatorEvent } from "../status/index.ts";
import type { FollowedConfig, Healing, Requests } from "../triggers/index.ts";
import { Page } from "../ui/index.ts";
import { VERSION } from "../version.ts";
import type { Base } from "./base.ts";
import { previewStart } from "../preview/index.ts";
import { helmInput } from "../values/index.ts";

/** What is shown. */
export interface AdapterParts {
  readonly state: State;
  readonly queues: Queues<Task>;
  readonly metrics: Metrics;
  readonly hookMetrics: HookMetrics;
  readonly releases: Releases;
  readonly config: FollowedConfig;
  readonly requests: Requests;
  readonly bindings: KubeBindings;
  /** There is none before the lease is ours. */
  readonly healing: () => Healing | undefined;
  /** The answer of a follower to /readyz. */
  readonly mirrored: () => Promise<{ status: number; text: string } | undefined>;
  /** Who leads, while this operator waits for the lease. */
  readonly leader: () => string | undefined;
  readonly askLeader: Leadership["ask"];
  readonly scope: Scope;
}

/** How long the last statuses and Events may delay the end. */
const LAST_WRITES_MS = 2000;

const QUEUE_FILE = "/tmp/addon-operator-queue";

/** Shows a running operator: statuses, Events, metrics, HTTP port, debug socket. */
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
      queueText(dumpQueues(parts.queues.views(), { now: clock.now(), secrets })),
    );
    const operatorName = settings.configMap;
    this.#mirror = new StatusMirror({
      ...base,
      operatorName,
      statusValues: settings.statusValues,
      helmRelease: helmReleaseOf(env, namespace),
      annotated: (module, ...seen) => parts.requests.look(module, ...seen),
      remembers: (module, seconds) => parts.state.updateRun(module, (run) => remembering(run, seconds)),
      onWrite: (kind, result) => parts.metrics.add("statusWrites", { kind, result }),
      specChanged: async () => void (await parts.config.refresh()),
    });
    this.#page = this.#makePage();
    parts.state.onChange(() => this.#page.changed());
    const { name: instance } = ownIdentity(settings.pod);
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
        mirrored: this.#parts.mirrored,
        leader: this.#parts.leader,
        askLeader: this.#parts.askLeader,
        page: settings.ui && settings.uiPort === 0 ? this.#page : undefined,
        failed: (error) => this.#base.failures.report("http", error),
      },
    );
    this.port = server.port;
    scope.add(() => server.close());
    if (settings.ui && settings.uiPort !== 0) await this.#openPage();
    scope.add(() => this.#page.close());
    logger.info("Listening", { address: settings.listenAddress, port: server.port });
    const socket = await serveSocketAt(socketPlaces(settings), this.#sources(), logger);
    if (socket !== undefined) scope.add(() => socket.close());
    measure(metrics, { ...this.#base, ...this.#parts });
  }

  /** A server for the page alone; a follower asks that of the leader, which has the same settings. */
  async #openPage(): Promise<void> {
    const { settings, failures } = this.#base;
    const { leader, scope } = this.#parts;
    const page = { page: this.#page, leader, askLeader: (path: string) => this.#askPage(path) };
    const server = await servePage(
      { address: settings.listenAddress, port: settings.uiPort },
      { ...page, failed: (error) => failures.report("http", error) },
    );
    scope.add(() => server.close());
  }

  #askPage(path: string): ReturnType<Leadership["ask"]> {
    const { uiPort } = this.#base.settings;
    return this.#parts.askLeader(path, uiPort === 0 ? undefined : uiPort);
  }

  /** Begins to write the state into AddonModules; only the holder of the lease may. */
  mirror(): void {
    const { hub, namespace } = this.#base;
    const { scope, state, queues } = this.#parts;
    scope.add(watchOwnObjects(hub, this.#mirror, namespace));
    this.#mirror.follow(state, queues);
  }

  /** Notes that what waits has changed, though nothing was recorded. */
  showAgain(): void {
    this.#mirror.update(this.#parts.state.view, this.#parts.queues.views());
    this.#page.changed();
  }

  /** Notes that a task was queued, run or removed. */
  queuesChanged(): void {
    this.#queueFile.changed();
    this.#page.changed();
  }

  /** How many statuses and Events are not written yet. */
  unwritten(): number {
    return this.#events.unwritten + this.#mirror.unwritten();
  }

  /**
   * Writes what is not written yet, unless another operator writes by now (`leads` false), and stops. The next
   * leader writes what did not get through in time.
   */
  async flush(leads = true): Promise<void> {
    const over = new AbortController();
    const patience = sleep(this.#base.clock, LAST_WRITES_MS, over.signal);
    if (leads) await Promise.race([this.#write(), patience]);
    over.abort();
    this.#mirror.close();
    this.#events.close();
    await patience;
  }

  async #write(): Promise<void> {
    await this.#mirror.flush();
    await this.#events.flush();
  }

  announce(event: OperatorEvent): void {
    this.#events.record(event);
  }

  #makePage(): Page {
    const { clock, secrets, settings, namespace } = this.#base;
    const { state, queues } = this.#parts;
    return new Page({
      clock,
      secrets,
      about: { version: VERSION, name: settings.configMap, namespace },
      moment: () => ({ view: state.view, queues: queues.views() }),
      statusValues: settings.statusValues,
      statusOf: (module) => this.#mirror.statusOf(module),
      originsOf: (section) => state.values.explain(section),
      runs: this.#base.runRing,
      diff: (module, shown) => this.#diff(module, shown),
    });
  }

  #diff(module: Module, shown: (object: JsonObject) => Json): Promise<string> {
    const { state, releases } = this.#parts;
    const record = state.module(module.name) ?? { module, confirmedCrds: undefined };
    return releases.diff({ ...this.#request(module), crds: crdRequest(state.values, record), shown });
  }

  #request(module: Module): HelmInput & { readonly signal: AbortSignal } {
    return { ...helmInput(this.#parts.state.values, module), signal: new AbortController().signal };
  }

  #sources(): Sources {
    const { state, queues, bindings, releases, healing, metrics } = this.#parts;
    const { clock, secrets, sink, failures, runRing, settings } = this.#base;
    return {
      version: VERSION,
      leader: this.#parts.leader,
      askLeader: (path) => this.#askPage(path),
      clock,
      secrets,
      state,
      queues: () => queues.views(),
      snapshots: (hookId) => bindings.dump(hookId) as unknown as Json,
      render: (module, diff) => releases.show(this.#request(module), diff),
      diff: (module) => this.#diff(module, (object) => object),
      page: this.#page,
      objects: (module) => healing()?.objects(module),
      wayBack: (module, revision) => releases.wayBack(module, revision),
      plan: () => previewStart(this.#base, releases, state),
      runs: runRing,
      about: () => ({
        settings: settings as unknown as Json,
        node: process.version,
        platform: `${process.platform} ${process.arch}`,
      }),
      metrics: () => metrics.text(),
      log: sink,
      failed: (error) => failures.report("debug socket", error),
    };
  }
}

/** The operator's own release, if its chart names it. */
function helmReleaseOf(env: Base["env"], namespace: string): { name: string; namespace: string } | undefined {
  const name = env["ADDON_OPERATOR_RELEASE_NAME"];
  return name === undefined ? undefined : { name, namespace };
}
