/** The life of an operator, from the first contact to an orderly end; what must be right before it works. */

import { LEASE_GRACE_MS, type Environment } from "../config.ts";
import { applyOwnCrds } from "../helm/index.ts";
import { RedactionKey, firstContact, redactionSecretName, watchRights } from "../kube/index.ts";
import type { Failures, Scope } from "../lib/index.ts";
import { Scratch, endChildren, startOnlyWhile, startsAsMeant, useTempDir } from "../process/index.ts";
import type { Settings } from "../settings.ts";
import { ProblemError, type Problem } from "../model/index.ts";
import { tellTree } from "../modules/index.ts";
import { explainInvalid, type State } from "../state/index.ts";
import { checkSchemas, loadHooks, type Ports } from "../tasks/index.ts";
import type { FollowedConfig } from "../triggers/index.ts";
import { makeBase, type Base } from "./base.ts";
import { Rooms } from "./rooms.ts";

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

/** The life of an operator: first contact, the lease, everything read, work, an orderly end. */
export class Operator {
  readonly #options: OperatorOptions;
  readonly #base: Base;
  #rooms: Rooms | undefined;
  /** How long what runs may take to end; none when the lease was lost. */
  #graceMs: number;

  constructor(options: OperatorOptions) {
    this.#options = options;
    this.#graceMs = options.settings.shutdownTimeoutMs;
    this.#base = makeBase(options.settings, options.env, options.scope);
  }

  /** Where errors are reported that nobody waits for. */
  get failures(): Failures {
    return this.#base.failures;
  }

  /** What a stop waits for: running queues, and statuses and Events that are not written yet. */
  owed(): { running: number; unwritten: number } {
    return { running: this.#rooms?.queues.running ?? 0, unwritten: this.#rooms?.adapters.unwritten() ?? 0 };
  }

  /**
   * Starts, works, and resolves when asked to stop or when the lease is lost. Throws ProblemError when it refuses
   * to start.
   */
  async run(): Promise<void> {
    const { signal } = this.#options.stop;
    const starting = this.#start(signal);
    // What a start has begun may go on for a while; it fails when everything is closed.
    starting.catch(() => {});
    await Promise.race([starting, aborted(signal)]);
    await aborted(signal);
  }

  async #start(signal: AbortSignal): Promise<void> {
    const { client, clock, logger, settings, namespace } = this.#base;
    await useTempDir(settings.tmpDir);
    await Scratch.cleanStale(settings.tmpDir, clock);
    await firstContact(client, signal);
    logger.info("Connected", { server: client.origin.server, namespace });
    const rooms = this.#build();
    await rooms.adapters.open();
    await this.#prepare(rooms);
    signal.throwIfAborted();
    await this.#begin(rooms, signal);
  }

  /** Stops: no new triggers, running work may end within the time-out, then status and lease. */
  async stop(): Promise<void> {
    this.#rooms?.engine.stop();
    await this.#rooms?.queues.stop(this.#graceMs);
    await this.#endChildren();
    await this.#rooms?.adapters.flush(this.#rooms.leadership.leads);
    await this.#rooms?.leadership.release();
  }

  #build(): Rooms {
    const { scope } = this.#options;
    this.#rooms = new Rooms(this.#base, { scope, biteMs: BITE_MS, onLost: (reason) => this.#lost(reason) });
    return this.#rooms;
  }

  /** Until the lease is ours and everything is read that must be right before anything runs. */
  async #prepare(rooms: Rooms): Promise<void> {
    const { state, metrics, ports, releases, leadership, adapters } = rooms;
    const { settings, stop } = this.#options;
    // Before asking for the lease: that may be the very right that is missing.
    void watchRights(this.#base, (missing) => {
      metrics.set("missingRights", {}, missing.length);
      state.record({ missingRights: missing });
    });
    // A follower is warm: what it reads now it need not read when it takes over.
    const key = new RedactionKey({ ...this.#base, secret: redactionSecretName(settings.configMap) });
    if (settings.ha) await Promise.all([warmUp(this.#base, ports), releases.ready(), key.read()]);
    await leadership.acquire(adapters.port, stop.signal);
    // Of a leader that was killed on this machine while this one waited.
    await Scratch.cleanStale(settings.tmpDir, this.#base.clock);
    // Before they are read, so that no change is missed.
    await rooms.watchFiles();
    await Promise.all([
      key.ensure(),
      loadEverything(this.#base, state, ports),
      settings.manageCrds ? applyOwnCrds(this.#base) : undefined,
      releases.helm.endLeftOver(stop.signal).then(() => releases.ready()),
    ]);
  }

  async #begin(rooms: Rooms, signal: AbortSignal): Promise<void> {
    const { state, ports, config, adapters } = rooms;
    adapters.mirror();
    try {
      await loadConfig(state, config, ports);
    } catch (error) {
      // Invalid content is reported on the AddonOperator before the operator exits.
      await adapters.flush();
      throw error;
    }
    await config.watch();
    signal.throwIfAborted();
    rooms.follow();
    state.record({ boot: "waiting" });
  }

  /** When the lease is lost, children are ended before another operator may start any. */
  #lost(reason: string): void {
    this.#base.logger.error("The lease is lost; stopping", { reason });
    this.#graceMs = 0;
    this.#options.stop.abort(new Error("lost the lease"));
    void this.#endChildren();
  }

  /** Ends all children, what hooks have left in the background among them; from then on none is started. */
  async #endChildren(): Promise<void> {
    const { settings, clock } = this.#base;
    startOnlyWhile(() => false);
    const graceMs = CHILDREN_GRACE_MS;
    await Promise.all([endChildren(graceMs), Scratch.endOwn(settings.tmpDir, { clock, graceMs })]);
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/**
 * Reads everything that must be valid before anything runs: directories, global hooks, the ConfigMap. Throws
 * ProblemError with every problem found.
 */
async function loadEverything(base: Base, state: State, ports: Ports): Promise<void> {
  if (!startsAsMeant())
    base.logger.warn("koffi cannot be loaded: hooks start slower and cannot open /dev/stdout or /dev/stderr");
  const tree = await base.readTree();
  tellTree(base.logger, tree);
  const { hooks, problems } = await loadHooks(ports, tree.globalHookFiles, undefined);
  refuse([...tree.problems, ...problems]);
  checkSchemas(ports, tree.globalSchemas);
  state.recordTree(tree);
  state.recordGlobalHooks(hooks);
}

/** Reads files and asks all hooks for their configuration to fill the caches; problems are reported later. */
async function warmUp(base: Base, ports: Ports): Promise<void> {
  const tree = await base.readTree();
  await loadHooks(ports, tree.globalHookFiles, undefined);
  for (const module of tree.modules) await loadHooks(ports, module.hookFiles, module.name);
}

/**
 * Reads the ConfigMap; a missing one is made at a first start only. An invalid one is refused, unless content is kept
 * that was accepted before.
 */
async function loadConfig(state: State, config: FollowedConfig, ports: Ports): Promise<void> {
  await config.moveOverlay();
  const found = await config.refresh();
  if (!found && ports.releases.anyOurs()) {
    config.missingAtStart();
    return;
  }
  if (!found) await config.createEmpty();
  if (state.view.config.condition !== "invalid" || (await config.useAccepted())) return;
  const file = `ConfigMap ${config.name}`;
  refuse([...state.view.config.problems, { file, message: explainInvalid(state.view) }]);
}

function refuse(problems: readonly Problem[]): void {
  if (problems.length > 0) throw new ProblemError(problems);
}
