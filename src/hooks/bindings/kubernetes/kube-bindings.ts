/** The kubernetes bindings of all hooks (docs/reference/hooks.md, "Kubernetes events"). The monitor of a binding watches its objects and buffers its events. */

import type { Filter } from "../../filter/index.ts";
import type { KindFinder, ObjectKey, Resource, WatchHub } from "../../../kube/index.ts";
import { DepthError, oneLine, toError, type Clock, type Logger } from "../../../base/index.ts";
import type { Hook, KubernetesBinding, SnapshotItem } from "../../../base/model/index.ts";
import { enqueueHook, type HookQueues, type Snapshots } from "../trigger.ts";
import { SharedObjects, type BindingTimes } from "./informer.ts";
import { Monitor, sortItems } from "./monitor.ts";
import { needsUserAction, waitUntilPermitted, waitUntilRefused } from "./permission.ts";

export interface KubeBindingsOptions {
  readonly hub: WatchHub;
  readonly kinds: Pick<KindFinder, "find">;
  readonly filters: { compile(text: string): Promise<Filter> };
  readonly clock: Clock;
  readonly logger: Logger;
  /** `--keep-managed-fields`. */
  readonly keepManagedFields?: boolean;
  /** Receive hook tasks: for events, and for the Synchronization of a binding that started late. */
  readonly queues: HookQueues;
  readonly report?: BindingReport;
  /** Returns a check that rejects while the module lacks permissions for the binding; undefined for hooks under the operator's service account. */
  readonly createListCheck?: (
    hook: Hook,
    binding: KubernetesBinding,
    resource: Resource,
  ) => (() => Promise<void>) | undefined;
}

/** Reports what happened to kubernetes bindings. */
export interface BindingReport {
  /** A binding cannot work; undefined = it works again, or the hook was disabled. */
  bindingIssueChanged(hook: Hook, binding: KubernetesBinding, issue: string | undefined): void;
  /** Called once for each binding; returns what records its filter and event durations. */
  bindingTimes(hook: Hook, binding: KubernetesBinding): BindingTimes;
}

/** A binding of an enabled hook: its watches, and how far its start has come. */
interface WatchedBinding {
  readonly monitor: Monitor;
  readonly stop: AbortController;
  /** `enable` waits for this: everything is listed, or the binding is blocked by a missing kind or needs a user's action. */
  readonly enabled: Promise<void>;
  readonly resolveEnabled: () => void;
  isEnabled: boolean;
  issue: string | undefined;
  /** Why the first list is unusable: the filter failed for one of its objects. */
  firstListFailure: string | undefined;
}

interface WatchedHook {
  readonly generation: number;
  /** By binding id, in the order of the configuration. */
  readonly bindings: Map<string, WatchedBinding>;
}

/** The filter failed for an object of the first list: without it, a hook could delete what belongs to the object. */
export class FirstListError extends Error {}

/**
 * The kubernetes bindings of all enabled hooks: snapshots and events. Events of a binding wait from `enable` to `unlock`; the caller of `enable` runs
 * its Synchronization in between. A binding whose kind does not exist or that the API server refuses blocks nothing: it is empty, appears in `issues`
 * and in the log, and queues its Synchronization when it can start.
 */
export class KubeBindings {
  readonly #options: KubeBindingsOptions;
  readonly #shared = new SharedObjects();
  /** By hook id. */
  readonly #hooks = new Map<string, WatchedHook>();
  #generation = 0;

  constructor(options: KubeBindingsOptions) {
    this.#options = options;
  }

  /**
   * Opens the watches of a hook, if they are not open; resolves when all objects of each binding are listed, or the binding cannot work. Throws a
   * FirstListError if a filter fails for an object of the first list: then the next call lists again.
   */
  async enable(hook: Hook): Promise<void> {
    if (this.#findFirstListFailure(hook) !== undefined) this.#closeHook(hook.id);
    if (!this.#hooks.has(hook.id)) {
      const bindings = new Map<string, WatchedBinding>();
      this.#hooks.set(hook.id, { generation: ++this.#generation, bindings });
      for (const binding of hook.config.bindings.kubernetes)
        bindings.set(binding.id, this.#startBinding(hook, binding));
    }
    await Promise.all(this.#bindingsOf(hook.id).map(({ enabled }) => enabled));
    const failure = this.#findFirstListFailure(hook);
    if (failure !== undefined) throw new FirstListError(failure);
  }

  /** Why the first list of a binding of the hook is unusable; undefined if all lists are usable. */
  #findFirstListFailure({ id }: Hook): string | undefined {
    const failures = this.#bindingsOf(id).map(({ firstListFailure }) => firstListFailure);
    return failures.find((failure) => failure !== undefined);
  }

  /** A number that changes when the hook's watches start again, which makes its earlier tasks stale; undefined without watches. */
  watchGeneration(hook: Hook): number | undefined {
    return this.#hooks.get(hook.id)?.generation;
  }

  /** Ids of the bindings whose objects have not been listed yet: their snapshots are incomplete. */
  listUnlistedBindings(hook: Hook): readonly string[] {
    return this.#bindingsOf(hook.id).flatMap(({ monitor }) => (monitor.isReady ? [] : [monitor.binding.id]));
  }

  /** Queues the buffered and all later events of these bindings; undefined = of all. */
  unlock(hook: Hook, bindingIds?: readonly string[]): void {
    for (const { monitor } of this.#bindingsOf(hook.id)) {
      if (bindingIds === undefined || bindingIds.includes(monitor.binding.id)) monitor.outbox.unlock();
    }
  }

  /** Closes the watches of a hook and drops its snapshots and events. */
  disable(hook: Hook): void {
    const withIssues = this.#bindingsOf(hook.id).filter(({ issue }) => issue !== undefined);
    this.#closeHook(hook.id);
    // Undefined: the issue does not exist any more.
    const { report } = this.#options;
    for (const { monitor } of withIssues) report?.bindingIssueChanged(hook, monitor.binding, undefined);
  }

  close(): void {
    for (const id of this.#hooks.keys()) this.#closeHook(id);
  }

  /** The snapshots of a hook as they are at each call of the returned methods. */
  snapshots(hook: Hook): Snapshots {
    const itemsOf = (isSelected: (binding: KubernetesBinding) => boolean) =>
      this.#readItemsForRun(this.#bindingsOf(hook.id).filter(({ monitor }) => isSelected(monitor.binding)));
    return {
      byBindingName: (bindingName) => itemsOf(({ name }) => name === bindingName),
      byBindingId: (bindingId) => itemsOf(({ id }) => id === bindingId),
    };
  }

  /** The objects of bindings for a run of the hook, sorted. Drops buffered events, whose changes the snapshot contains. */
  #readItemsForRun(watched: readonly WatchedBinding[]): readonly SnapshotItem[] {
    for (const { monitor } of watched) monitor.outbox.markSnapshotRead();
    const [first] = watched;
    // The items of one binding are sorted already.
    if (first !== undefined && watched.length === 1) return first.monitor.items;
    return sortItems(watched.flatMap(({ monitor }) => [...monitor.informers]));
  }

  /** Bindings that cannot work, by hook and binding; `module` is undefined for a global hook. */
  issues(): readonly { hook: string; module: string | undefined; binding: string; message: string }[] {
    return this.#allBindings().flatMap(({ monitor, issue }) =>
      issue === undefined ? [] : [{ ...monitor.logFields, message: issue }],
    );
  }

  /** Number of objects of each binding (`kube_snapshot_objects`). */
  countObjects() {
    return this.#allBindings().map(({ monitor }) => {
      const { queue, kind } = monitor.binding;
      return { ...monitor.logFields, queue, kind, objects: monitor.size };
    });
  }

  /** Snapshots and counters of a hook for the debug commands, by binding name. */
  dump(id: string) {
    return Object.fromEntries(
      this.#bindingsOf(id).map(({ monitor }) => [monitor.binding.name, monitor.dump()]),
    );
  }

  /** Closes the watches of a hook and forgets them; a pending `enable` returns. */
  #closeHook(hookId: string): void {
    for (const { monitor, stop, resolveEnabled } of this.#bindingsOf(hookId)) {
      stop.abort();
      monitor.close();
      resolveEnabled();
    }
    this.#hooks.delete(hookId);
  }

  /** Creates the monitor of a binding, and begins to open its watches. `enabled` resolves when `enable` need not wait for the binding any more. */
  #startBinding(hook: Hook, binding: KubernetesBinding): WatchedBinding {
    const { promise: enabled, resolve } = Promise.withResolvers<void>();
    const { hub, clock, queues, keepManagedFields = false, report } = this.#options;
    const monitor = new Monitor(hook, binding, {
      hub,
      clock,
      keepManagedFields,
      shared: this.#shared,
      queues,
      onReady: () => this.#handleListed(watched),
      onIssue: (error) => this.#reportIssue(watched, error),
      onFilterError: (object, error) => this.#handleFilterError(watched, object, error),
      times: report?.bindingTimes(hook, binding),
    });
    const resolveEnabled = (): void => {
      watched.isEnabled = true;
      resolve();
    };
    const stop = new AbortController();
    const initial = { isEnabled: false, issue: undefined, firstListFailure: undefined };
    const watched: WatchedBinding = { monitor, stop, enabled, resolveEnabled, ...initial };
    void this.#openWhenPossible(watched);
    return watched;
  }

  /**
   * Waits until a binding can work (its kind exists, its filter compiles, its module has the permissions), and opens its watches. Starts all over
   * if the module loses the permissions. A binding that has to wait is reported as an issue, and `enable` does not wait for it.
   */
  async #openWhenPossible(watched: WatchedBinding): Promise<void> {
    const { monitor, stop, resolveEnabled } = watched;
    const { hook, binding } = monitor;
    const reportBlocked = (error: Error): void => {
      if (stop.signal.aborted) return;
      this.#reportIssue(watched, error);
      resolveEnabled();
    };
    const options = { signal: stop.signal, onMissing: reportBlocked };
    const resource = await this.#options.kinds.find(binding, options);
    if (resource === undefined) return; // Closed before the kind existed.
    let filter: Filter | undefined;
    try {
      if (binding.jqFilter !== undefined) filter = await this.#options.filters.compile(binding.jqFilter);
    } catch (error) {
      return reportBlocked(toError(error));
    }
    if (stop.signal.aborted) return;
    const check = this.#options.createListCheck?.(hook, binding, resource);
    const permission = { check, clock: this.#options.clock, signal: stop.signal };
    await waitUntilPermitted(permission, reportBlocked);
    if (stop.signal.aborted) return;
    this.#reportIssue(watched, undefined);
    monitor.open(resource, filter);
    const refusal = await waitUntilRefused(permission);
    if (refusal !== undefined) this.#reopen(watched, refusal);
  }

  /** Closes the watches of a binding whose module has lost its permissions; they open again when it has them. */
  #reopen({ monitor, stop }: WatchedBinding, refusal: Error): void {
    const { hook, binding } = monitor;
    stop.abort();
    monitor.close();
    const reopened = this.#startBinding(hook, binding);
    this.#reportIssue(reopened, refusal);
    reopened.resolveEnabled(); // No `enable` waits for it.
    this.#hooks.get(hook.id)?.bindings.set(binding.id, reopened);
  }

  /**
   * Called when all objects of a binding are listed: lets `enable` return, whose caller runs the Synchronization. If `enable` has returned before,
   * because the binding could not work yet, queues the Synchronization here.
   */
  #handleListed({ monitor, isEnabled: hasEnableReturned, resolveEnabled }: WatchedBinding): void {
    resolveEnabled();
    if (!hasEnableReturned) return;
    const { hook, binding } = monitor;
    const needsSynchronization = hook.config.version === "v1" && binding.executeOnSynchronization;
    if (needsSynchronization) enqueueHook(this.#options.queues, hook, { type: "synchronization", binding });
    else monitor.outbox.unlock();
  }

  /** Records, logs and reports why a binding cannot work, or that it works again; repeated errors only once. */
  #reportIssue(watched: WatchedBinding, error: Error | undefined): void {
    const { logger, report } = this.#options;
    const message = error === undefined ? undefined : oneLine(error);
    // Only a user can solve such an error: `enable` does not wait for that.
    if (error !== undefined && needsUserAction(error)) watched.resolveEnabled();
    if (message === watched.issue) return;
    watched.issue = message;
    const { hook, binding } = watched.monitor;
    const fields = watched.monitor.logFields;
    if (message === undefined) logger.info("Kubernetes binding works", fields);
    else logger.warn("Kubernetes binding does not work", { ...fields, reason: message });
    report?.bindingIssueChanged(hook, binding, message);
  }

  /** Logs that the filter failed for an object. In the first list, `enable` then throws, unless the object is nested too deep: no retry can help. */
  #handleFilterError(watched: WatchedBinding, object: ObjectKey, error: unknown): void {
    const isTooDeep = error instanceof DepthError;
    const { hook, binding } = watched.monitor;
    const blocksStart = !watched.isEnabled && !isTooDeep;
    const name = [object.namespace, object.name].filter(Boolean).join("/");
    if (blocksStart)
      watched.firstListFailure ??= `hook ${hook.name}: binding ${binding.name}: jqFilter failed for ${binding.kind} ${name}: ${oneLine(error)}`;
    const problem = isTooDeep ? "An object is nested too deep" : "jqFilter failed";
    const message = `${problem}, ${blocksStart ? "the binding cannot start" : "the change is left out"}`;
    const fields = { ...watched.monitor.logFields, ...object, error: oneLine(error) };
    this.#options.logger.error(message, fields);
  }

  #bindingsOf(hookId: string): readonly WatchedBinding[] {
    return [...(this.#hooks.get(hookId)?.bindings.values() ?? [])];
  }

  #allBindings(): readonly WatchedBinding[] {
    return [...this.#hooks.values()].flatMap(({ bindings }) => [...bindings.values()]);
  }
}
