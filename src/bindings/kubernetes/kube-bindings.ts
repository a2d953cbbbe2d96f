/** The kubernetes bindings of all hooks: snapshots and events (docs/HOOKS.md, "Kubernetes events"). */

import type { Discovery, WatchHub } from "../../kube/index.ts";
import type { Clock, Logger } from "../../lib/index.ts";
import { DepthError, oneLine } from "../../lib/index.ts";
import type { Hook, HookTrigger, KubernetesBinding, SnapshotItem } from "../../model/index.ts";
import type { BindingCount, BindingDump, BindingTrouble } from "./kube-bindings-views.ts";
import { countOf, dumpOf } from "./kube-bindings-views.ts";
import { Kinds } from "./kube-kinds.ts";
import { sortedItems } from "./monitor/monitor-cache.ts";
import type { CompiledFilter } from "./monitor/monitor-filter.ts";
import { FilterMemo } from "./monitor/monitor-filter.ts";
import { TextPool } from "./monitor/monitor-text.ts";
import type { BindingTimes } from "./monitor/monitor.ts";
import { Monitor, needsPerson } from "./monitor/monitor.ts";

/** What kubernetes bindings use, and what they call. */
export interface KubeBindingsOptions {
  readonly hub: WatchHub;
  readonly discovery: Pick<Discovery, "resolve" | "invalidate">;
  readonly filters: { compile(text: string): Promise<CompiledFilter> };
  readonly clock: Clock;
  readonly logger: Logger;
  /** `--keep-managed-fields`. */
  readonly keepManagedFields?: boolean;
  /** Called with reasons to run a hook: events, and the Synchronization of a binding that could not start in time. */
  readonly emit: (hook: Hook, trigger: HookTrigger) => void;
  /**
   * Called when a binding cannot work (a missing kind, missing rights); undefined = it works again, or the hook was
   * disabled. The log line is written here.
   */
  readonly onTrouble?: (hook: Hook, binding: KubernetesBinding, message: string | undefined) => void;
  /** Called when a filter failed on an object for good, for the metric. The log line is written here. */
  readonly onFilterError?: (hook: Hook, binding: KubernetesBinding, error: unknown) => void;
  /** Called once for each binding; returns what records how long its filter and events take. */
  readonly times?: (hook: Hook, binding: KubernetesBinding) => BindingTimes;
}

/** Snapshots of one hook as they are at the moment of asking. */
export interface HookSnapshots {
  get(bindingName: string): readonly SnapshotItem[];
  objects(bindingId: string): readonly SnapshotItem[];
}

interface Watched {
  readonly monitor: Monitor;
  readonly stop: AbortController;
  /** Listed, or known to wait for a person or a kind. */
  readonly settled: Promise<void>;
  readonly settle: () => void;
  isSettled: boolean;
  trouble: string | undefined;
}

/** The watches of one hook, from `enable` to `disable`. */
interface Opening {
  /** No other one has this number. */
  readonly number: number;
  /** By binding id, in the order of the configuration. */
  readonly bindings: Map<string, Watched>;
}

/**
 * The kubernetes bindings of all enabled hooks: snapshots and events. Events of a binding wait from `enable` to
 * `unlock`; whoever enables it runs its Synchronization in between. A binding whose kind does not exist, or that
 * the API server refuses, delays nobody: it is empty, is listed in `troubles` and in the log, and starts when it
 * can; then a Synchronization is emitted for it.
 */
export class KubeBindings {
  readonly #options: KubeBindingsOptions;
  readonly #kinds: Kinds;
  readonly #pool = new TextPool();
  readonly #memo = new FilterMemo();
  /** By hook id. */
  readonly #hooks = new Map<string, Opening>();
  #openings = 0;

  constructor(options: KubeBindingsOptions) {
    this.#options = options;
    this.#kinds = new Kinds(options);
  }

  /**
   * Opens the watches of a hook; resolves when each binding is either listed or in `waiting`. A hook that is enabled
   * already is left as it is.
   */
  async enable(hook: Hook): Promise<void> {
    if (!this.#hooks.has(hook.id)) {
      const bindings = new Map<string, Watched>();
      this.#hooks.set(hook.id, { number: ++this.#openings, bindings });
      for (const binding of hook.config.bindings.kubernetes)
        bindings.set(binding.id, this.#start(hook, binding));
    }
    await Promise.all(this.#of(hook.id).map(({ settled }) => settled));
  }

  /** Tells the watches that a hook has now from those it had or will have; undefined while it has none. */
  opening(hook: Hook): number | undefined {
    return this.#hooks.get(hook.id)?.number;
  }

  /** Ids of the bindings that have not been listed yet: their snapshots mean nothing. */
  waiting(hook: Hook): readonly string[] {
    return this.#of(hook.id).flatMap(({ monitor }) => (monitor.ready ? [] : [monitor.binding.id]));
  }

  /** Lets out the buffered and all later events of these bindings; undefined = of all. */
  unlock(hook: Hook, bindingIds?: readonly string[]): void {
    for (const { monitor } of this.#of(hook.id)) {
      if (bindingIds === undefined || bindingIds.includes(monitor.binding.id)) monitor.outbox.unlock();
    }
  }

  /** Closes the watches of a hook and drops its snapshots and events. */
  disable(hook: Hook): void {
    const troubled = this.#of(hook.id).filter(({ trouble }) => trouble !== undefined);
    this.#end(hook.id);
    for (const { monitor } of troubled) this.#options.onTrouble?.(hook, monitor.binding, undefined);
  }

  /** Closes everything. */
  close(): void {
    for (const id of this.#hooks.keys()) this.#end(id);
  }

  /** CRDs were just created: missing kinds are looked for at once, and what was read of the others is out of date. */
  kindsChanged(): void {
    this.#options.discovery.invalidate();
    this.#kinds.poke();
  }

  /** The snapshots of a hook. */
  snapshots(hook: Hook): HookSnapshots {
    return {
      get: (bindingName) => this.snapshot(hook.id, bindingName),
      objects: (bindingId) => this.#hooks.get(hook.id)?.bindings.get(bindingId)?.monitor.items() ?? [],
    };
  }

  /** The objects of a binding, by namespace, then name; of all bindings where several have that name. */
  snapshot(hookId: string, bindingName: string): readonly SnapshotItem[] {
    const named = this.#of(hookId).filter(({ monitor }) => monitor.binding.name === bindingName);
    const [first, ...more] = named;
    if (first === undefined) return [];
    return more.length === 0
      ? first.monitor.items()
      : sortedItems(named.flatMap(({ monitor }) => monitor.stores()));
  }

  /** Bindings that cannot work, by hook and binding. */
  troubles(): readonly BindingTrouble[] {
    return this.#all().flatMap(({ monitor: { hook, binding }, trouble }) =>
      trouble === undefined
        ? []
        : [{ hook: hook.name, module: hook.module, binding: binding.name, message: trouble }],
    );
  }

  /** Number of objects of each binding (`kube_snapshot_objects`). */
  counts(): readonly BindingCount[] {
    return this.#all().map(({ monitor }) => countOf(monitor));
  }

  /** Snapshots and counters of a hook for the debug commands, by binding name. */
  dump(hookId: string): Record<string, BindingDump> {
    return Object.fromEntries(this.#of(hookId).map(({ monitor }) => [monitor.binding.name, dumpOf(monitor)]));
  }

  #end(hookId: string): void {
    for (const { monitor, stop, settle } of this.#of(hookId)) {
      stop.abort();
      monitor.close();
      settle();
    }
    this.#hooks.delete(hookId);
  }

  #start(hook: Hook, binding: KubernetesBinding): Watched {
    const { promise: settled, resolve } = Promise.withResolvers<void>();
    const stop = new AbortController();
    const { hub, clock, emit, keepManagedFields = false, times } = this.#options;
    const monitor = new Monitor(hook, binding, {
      hub,
      clock,
      keepManagedFields,
      pool: this.#pool,
      memo: this.#memo,
      emit: (event) => emit(hook, { type: "event", binding, event }),
      onReady: () => this.#ready(watched),
      onTrouble: (error) => this.#troubled(watched, error),
      onFilterError: (place, error) => this.#filterFailed(monitor, place, error),
      times: times?.(hook, binding),
    });
    const settle = (): void => {
      watched.isSettled = true;
      resolve();
    };
    const watched: Watched = { monitor, stop, settled, settle, isSettled: false, trouble: undefined };
    void this.#open(watched);
    return watched;
  }

  async #open(watched: Watched): Promise<void> {
    const { monitor, stop, settle } = watched;
    const missing = (error: Error): void => {
      if (stop.signal.aborted) return;
      this.#troubled(watched, error);
      settle();
    };
    const resource = await this.#kinds.find(monitor.binding, stop.signal, missing);
    const filter = await this.#compile(monitor.binding).catch(missing);
    if (resource === undefined || filter === undefined || stop.signal.aborted) return;
    this.#troubled(watched, undefined);
    monitor.open(resource, filter.compiled);
  }

  async #compile({ jqFilter }: KubernetesBinding): Promise<{ compiled: CompiledFilter | undefined }> {
    return { compiled: jqFilter === undefined ? undefined : await this.#options.filters.compile(jqFilter) };
  }

  #ready(watched: Watched): void {
    const { monitor, isSettled, settle } = watched;
    settle();
    if (!isSettled) return;
    // Whoever enabled the hook went on without this binding: its Synchronization is due now.
    const { hook, binding } = monitor;
    const wanted = hook.config.version === "v1" && binding.executeOnSynchronization;
    if (wanted) this.#options.emit(hook, { type: "synchronization", binding });
    else monitor.outbox.unlock();
  }

  #troubled(watched: Watched, error: Error | undefined): void {
    const message = error === undefined ? undefined : oneLine(error);
    if (error !== undefined && needsPerson(error)) watched.settle();
    if (message === watched.trouble) return;
    watched.trouble = message;
    const { hook, binding } = watched.monitor;
    const fields = { hook: hook.name, module: hook.module, binding: binding.name };
    if (message === undefined) this.#options.logger.info("Kubernetes binding works", fields);
    else {
      this.#options.logger.warn("Kubernetes binding does not work", { ...fields, reason: message });
    }
    this.#options.onTrouble?.(hook, binding, message);
  }

  #filterFailed(
    { hook, binding }: Monitor,
    place: { namespace: string; name: string },
    error: unknown,
  ): void {
    const fields = { hook: hook.name, module: hook.module, binding: binding.name, ...place };
    const what = error instanceof DepthError ? "An object cannot be shown" : "jqFilter failed";
    this.#options.logger.error(`${what}, the change is left out`, { ...fields, error: oneLine(error) });
    this.#options.onFilterError?.(hook, binding, error);
  }

  #of(hookId: string): readonly Watched[] {
    return [...(this.#hooks.get(hookId)?.bindings.values() ?? [])];
  }

  #all(): readonly Watched[] {
    return [...this.#hooks.values()].flatMap(({ bindings }) => [...bindings.values()]);
  }
}
