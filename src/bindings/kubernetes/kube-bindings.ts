/** The kubernetes bindings of all hooks: snapshots and events (docs/HOOKS.md, "Kubernetes events"). */

import type { Filter } from "../../filter/index.ts";
import { ApiError, KindFinder, type Discovery, type WatchHub } from "../../kube/index.ts";
import { DepthError, oneLine, type Clock, type Logger } from "../../lib/index.ts";
import type { Hook, JsonObject, KubernetesBinding, SnapshotItem } from "../../model/index.ts";
import type { Snapshots } from "../kind.ts";
import { offerHook, type HookQueues } from "../kinds.ts";
import { SharedObjects } from "./informer.ts";
import { Monitor, sortedItems, type BindingTimes, type Operations } from "./monitor.ts";

/** What kubernetes bindings use, and what they call. */
export interface KubeBindingsOptions {
  readonly hub: WatchHub;
  readonly discovery: Pick<Discovery, "resolve" | "invalidate">;
  readonly filters: { compile(text: string): Promise<Filter> };
  readonly clock: Clock;
  readonly logger: Logger;
  /** `--keep-managed-fields`. */
  readonly keepManagedFields?: boolean;
  /** Take the reasons to run a hook: events, and the Synchronization of a binding that could not start in time. */
  readonly queues: HookQueues;
  /**
   * Called when a binding cannot work (a missing kind, missing rights); undefined = it works again, or the hook was
   * disabled. The log line is written here.
   */
  readonly onTrouble?: (hook: Hook, binding: KubernetesBinding, message: string | undefined) => void;
  /** Called once for each binding; returns what records how long its filter and events take. */
  readonly times?: (hook: Hook, binding: KubernetesBinding) => BindingTimes;
}

interface Watched {
  readonly monitor: Monitor;
  readonly stop: AbortController;
  /** Whoever enables the hook waits for this: all is listed, or it takes a person or a kind that is missing. */
  readonly enabled: Promise<void>;
  readonly resolveEnabled: () => void;
  isEnabled: boolean;
  trouble: string | undefined;
  /** Why the first list cannot be used: the filter failed for an object of it. */
  failure: string | undefined;
}

/** The name of an object; the namespace is empty where it has none. */
interface ObjectPlace {
  readonly namespace: string;
  readonly name: string;
}

/** The watches of one hook, from `enable` to `disable`. */
interface WatchedHook {
  readonly generation: number;
  /** By binding id, in the order of the configuration. */
  readonly bindings: Map<string, Watched>;
}

/**
 * The filter failed for an object of the first list: a Synchronization without that object would have the hook remove
 * what belongs to it.
 */
export class FirstListError extends Error {}

/**
 * The kubernetes bindings of all enabled hooks: snapshots and events. Events of a binding wait from `enable` to
 * `unlock`; whoever enables it runs its Synchronization in between. A binding whose kind does not exist, or that
 * the API server refuses, delays nobody: it is empty, is listed in `troubles` and in the log, and starts when it
 * can; then a Synchronization is offered for it.
 */
export class KubeBindings {
  readonly #options: KubeBindingsOptions;
  readonly #kinds: KindFinder;
  readonly #shared = new SharedObjects();
  /** By hook id. */
  readonly #hooks = new Map<string, WatchedHook>();
  #generation = 0;

  constructor(options: KubeBindingsOptions) {
    this.#options = options;
    this.#kinds = new KindFinder(options);
  }

  /**
   * Opens the watches of a hook; resolves when each binding is either listed or in `waiting`. A hook that is enabled
   * already is left as it is. Rejects with FirstListError; the next call lists again.
   */
  async enable(hook: Hook): Promise<void> {
    if (this.#failureOf(hook) !== undefined) this.#end(hook.id);
    if (!this.#hooks.has(hook.id)) {
      const bindings = new Map<string, Watched>();
      this.#hooks.set(hook.id, { generation: ++this.#generation, bindings });
      for (const binding of hook.config.bindings.kubernetes)
        bindings.set(binding.id, this.#start(hook, binding));
    }
    await Promise.all(this.#of(hook.id).map(({ enabled }) => enabled));
    const failure = this.#failureOf(hook);
    if (failure !== undefined) throw new FirstListError(failure);
  }

  #failureOf({ id }: Hook): string | undefined {
    return this.#of(id).find(({ failure }) => failure !== undefined)?.failure;
  }

  /** A number that differs each time the hook's watches are started anew; undefined while it has none. */
  generation(hook: Hook): number | undefined {
    return this.#hooks.get(hook.id)?.generation;
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

  /** The snapshots of a hook as they are at the moment of asking. */
  snapshots(hook: Hook): Snapshots {
    return {
      get: (bindingName) =>
        this.#shown(this.#of(hook.id).filter(({ monitor }) => monitor.binding.name === bindingName)),
      objects: (bindingId) =>
        this.#shown(this.#of(hook.id).filter(({ monitor }) => monitor.binding.id === bindingId)),
    };
  }

  /** The objects of bindings, by namespace, then name, as the hook is about to see them: that drops waiting events. */
  #shown(watched: readonly Watched[]): readonly SnapshotItem[] {
    for (const { monitor } of watched) monitor.outbox.seen();
    const [first, ...more] = watched;
    if (first === undefined) return [];
    return more.length === 0
      ? first.monitor.items
      : sortedItems(watched.flatMap(({ monitor }) => monitor.informers));
  }

  /** Bindings that cannot work, by hook and binding; `module` is undefined for a global hook. */
  troubles(): readonly { hook: string; module: string | undefined; binding: string; message: string }[] {
    return this.#all().flatMap(({ monitor, trouble }) =>
      trouble === undefined ? [] : [{ ...namesOf(monitor), message: trouble }],
    );
  }

  /** Number of objects of each binding (`kube_snapshot_objects`). */
  counts() {
    return this.#all().map(({ monitor }) => {
      return { ...namesOf(monitor), queue: monitor.binding.queue, objects: monitor.size };
    });
  }

  /** Snapshots and counters of a hook for the debug commands, by binding name. */
  dump(hookId: string) {
    return Object.fromEntries(this.#of(hookId).map(({ monitor }) => [monitor.binding.name, dumpOf(monitor)]));
  }

  #end(hookId: string): void {
    for (const { monitor, stop, resolveEnabled } of this.#of(hookId)) {
      stop.abort();
      monitor.close();
      resolveEnabled();
    }
    this.#hooks.delete(hookId);
  }

  #start(hook: Hook, binding: KubernetesBinding): Watched {
    const { promise: enabled, resolve } = Promise.withResolvers<void>();
    const { hub, clock, queues, keepManagedFields = false, times } = this.#options;
    const monitor = new Monitor(hook, binding, {
      hub,
      clock,
      keepManagedFields,
      shared: this.#shared,
      emit: (event) => offerHook(queues, hook, { type: "event", binding, event }),
      onReady: () => this.#ready(watched),
      onTrouble: (error) => this.#troubled(watched, error),
      onFilterError: (place, error) => this.#filterFailed(watched, place, error),
      times: times?.(hook, binding),
    });
    const resolveEnabled = (): void => {
      watched.isEnabled = true;
      resolve();
    };
    const stop = new AbortController();
    const watched: Watched = {
      monitor,
      stop,
      enabled,
      resolveEnabled,
      isEnabled: false,
      trouble: undefined,
      failure: undefined,
    };
    void this.#open(watched);
    return watched;
  }

  async #open(watched: Watched): Promise<void> {
    const { monitor, stop, resolveEnabled } = watched;
    const missing = (error: Error): void => {
      if (stop.signal.aborted) return;
      this.#troubled(watched, error);
      resolveEnabled();
    };
    const resource = await this.#kinds.find(monitor.binding, stop.signal, missing);
    const filter = await this.#compile(monitor.binding).catch(missing);
    if (resource === undefined || filter === undefined || stop.signal.aborted) return;
    this.#troubled(watched, undefined);
    monitor.open(resource, filter.compiled);
  }

  async #compile({ jqFilter }: KubernetesBinding): Promise<{ compiled: Filter | undefined }> {
    return { compiled: jqFilter === undefined ? undefined : await this.#options.filters.compile(jqFilter) };
  }

  #ready({ monitor, isEnabled, resolveEnabled }: Watched): void {
    resolveEnabled();
    if (!isEnabled) return;
    // Whoever enabled the hook went on without this binding: its Synchronization is due now.
    const { hook, binding } = monitor;
    const wanted = hook.config.version === "v1" && binding.executeOnSynchronization;
    if (wanted) offerHook(this.#options.queues, hook, { type: "synchronization", binding });
    else monitor.outbox.unlock();
  }

  #troubled(watched: Watched, error: Error | undefined): void {
    const { logger, onTrouble } = this.#options;
    const message = error === undefined ? undefined : oneLine(error);
    if (error !== undefined && needsPerson(error)) watched.resolveEnabled();
    if (message === watched.trouble) return;
    watched.trouble = message;
    const { hook, binding } = watched.monitor;
    const fields = namesOf(watched.monitor);
    if (message === undefined) logger.info("Kubernetes binding works", fields);
    else logger.warn("Kubernetes binding does not work", { ...fields, reason: message });
    onTrouble?.(hook, binding, message);
  }

  #filterFailed(watched: Watched, place: ObjectPlace, error: unknown): void {
    const isDeep = error instanceof DepthError;
    const { hook, binding } = watched.monitor;
    const isFirst = !watched.isEnabled && !isDeep;
    const name = [place.namespace, place.name].filter(Boolean).join("/");
    if (isFirst)
      watched.failure ??= `hook ${hook.name}: binding ${binding.name}: jqFilter failed for ${binding.kind} ${name}: ${oneLine(error)}`;
    const what = isDeep ? "An object cannot be shown" : "jqFilter failed";
    const message = `${what}, ${isFirst ? "the binding cannot start" : "the change is left out"}`;
    this.#options.logger.error(message, { ...namesOf(watched.monitor), ...place, error: oneLine(error) });
  }

  #of(hookId: string): readonly Watched[] {
    return [...(this.#hooks.get(hookId)?.bindings.values() ?? [])];
  }

  #all(): readonly Watched[] {
    return [...this.#hooks.values()].flatMap(({ bindings }) => [...bindings.values()]);
  }
}

/** True for errors that stay until a person acts: nobody should wait for them. */
function needsPerson(error: Error): boolean {
  return error instanceof ApiError && [400, 403, 404, 405, 422].includes(error.status);
}

function namesOf({ hook, binding }: Monitor): { hook: string; module: string | undefined; binding: string } {
  return { hook: hook.name, module: hook.module, binding: binding.name };
}

function dumpOf(monitor: Monitor) {
  const { sinceStart, sinceLastExecution } = monitor.outbox;
  return {
    snapshot: monitor.items.map(({ object, filterResult }): JsonObject => {
      return { ...(object && { object }), ...(filterResult !== undefined && { filterResult }) };
    }),
    operations: { sinceStart: counted(sinceStart), sinceLastExecution: counted(sinceLastExecution) },
  };
}

// The total is the first line, as in the Go operator.
function counted(operations: Operations): Operations & { count: number } {
  const { added, modified, deleted, cleaned } = operations;
  return { count: added + modified + deleted + cleaned, ...operations };
}
