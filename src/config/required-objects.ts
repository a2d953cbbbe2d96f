/**
 * Watches the objects that modules require (docs/reference/modules.md, "What a module requires"). A requirement is that the object exists, has
 * a condition, or meets a CEL expression. The finding about an object, why it does not meet that, is recorded in the operator's state. The
 * operator watches with its own permissions, so for a module with an account only objects that the account may get.
 */

import { openWhilePermitted } from "../hooks/bindings/index.ts";
import type { AccountPermissions } from "../hooks/index.ts";
import {
  MissingKindError,
  MissingPermissionsError,
  ObjectStore,
  toNamedSpec,
  toStoredObject,
} from "../kube/index.ts";
import type { KindFinder, Resource, Subscription, WatchHub, StoredObject } from "../kube/index.ts";
import { compileCel, oneLine, Timers, TOO_LONG, type CelTest, type Clock } from "../base/index.ts";
import {
  conditionOf,
  mayHaveAccount,
  requiredKey,
  type JsonObject,
  type RequiredObject,
  type Tree,
} from "../base/model/index.ts";
import { WatchedSet } from "../runtime/index.ts";
import type { State } from "../engine/state/index.ts";

interface RequiredObjectsOptions {
  readonly hub: WatchHub;
  readonly kinds: Pick<KindFinder, "find">;
  readonly clock: Clock;
  /** Default namespace of required objects. */
  readonly namespace: string;
  readonly state: State;
  readonly accountLimitsOf: AccountPermissions;
}

/** An object, and the module whose account must be allowed to get it; no module = modules without an account require it. */
interface RequiredByModule {
  readonly object: RequiredObject;
  readonly module: string | undefined;
}

const MIN_CHECK_INTERVAL_MS = 1000;
/** An expression that took too long is evaluated again after this time, even if the object is unchanged. */
const RETRY_EXPRESSION_MS = 60_000;

/** The watch of one required object, and when the object was checked. */
interface RequiredWatch extends RequiredByModule {
  readonly abortController: AbortController;
  /** The compiled expression that the object must meet. */
  test: CelTest | undefined;
  /** Contains the object if it exists. */
  store: ObjectStore<StoredObject>;
  subscription: Subscription | undefined;
  /** Time of the last check (monotonic ms); 0 = none. */
  checkedAt: number;
}

/** Watches each object that an enabled module requires, by name, and records whether it meets the requirement. */
export class RequiredObjects {
  readonly #options: RequiredObjectsOptions;
  readonly #watches = new WatchedSet((key, required: RequiredByModule) => this.#startWatch(key, required));
  /** The next check of an object, by key of its watch. */
  readonly #timers: Timers<string>;
  #knownTree: Tree | undefined;
  /** Names of the modules in `#knownTree` that require objects: cached, because every change of the state needs them. */
  #modulesWithRequirements: readonly string[] = [];

  constructor(options: RequiredObjectsOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
    options.state.onChange(() => this.#updateWatches());
  }

  /** Opens and closes watches, so that exactly the objects that enabled modules require are watched. */
  #updateWatches(): void {
    this.#watches.watchOnly(this.#collectRequiredObjects());
  }

  close(): void {
    this.#watches.close();
    this.#timers.close();
  }

  /** Collects the objects that enabled modules require, by `requiredKey`. */
  #collectRequiredObjects(): ReadonlyMap<string, RequiredByModule> {
    const { state } = this.#options;
    // The tree, all modules that were read, is replaced when a module changes.
    if (this.#knownTree !== state.tree) {
      this.#knownTree = state.tree;
      const modules = state.tree.modules.filter(({ requires }) => requires?.objects !== undefined);
      this.#modulesWithRequirements = modules.map(({ name }) => name);
    }
    const enabledModules = this.#modulesWithRequirements
      .flatMap((name) => state.module(name) ?? [])
      .filter(({ enabled }) => enabled);
    const objects = enabledModules.flatMap(({ module }) => {
      const name = mayHaveAccount(module) ? module.name : undefined;
      const required = module.requires?.objects ?? [];
      return required.map((object) => [requiredKey(object, module), { object, module: name }] as const);
    });
    return new Map(objects);
  }

  /** Begins to watch an object; it has no finding before the first check. */
  #startWatch(key: string, required: RequiredByModule): { close(): void } {
    const watch: RequiredWatch = {
      ...required,
      abortController: new AbortController(),
      test: undefined,
      store: createStore(),
      subscription: undefined,
      checkedAt: 0,
    };
    // It rejects only if the CEL expression of the requirement does not compile: it retries all other errors itself.
    void this.#findKindAndWatch(key, watch).catch(() =>
      this.#recordFinding(key, "has an expression that cannot be compiled"),
    );
    return { close: () => this.#stopWatch(key, watch) };
  }

  /**
   * Waits until the server knows the kind of the object, then watches the object. Records a finding while the kind is missing. Rejects if the
   * expression cannot be compiled.
   */
  async #findKindAndWatch(key: string, watch: RequiredWatch): Promise<void> {
    const { object } = watch;
    const { signal } = watch.abortController;
    if (object.cel !== undefined) watch.test = await compileCel(object.cel);
    const onMissing = (error: Error): void => {
      const isKindMissing = error instanceof MissingKindError;
      const message = isKindMissing
        ? "is of a kind that the server does not know"
        : `cannot be found: ${error.message}`;
      this.#recordFinding(key, message);
    };
    const resource = await this.#options.kinds.find(object, { signal, onMissing });
    if (resource === undefined || signal.aborted) return;
    await this.#watchWhilePermitted(key, watch, resource);
  }

  /** Watches the object, while the account of the module may get it, until the watch is stopped. */
  async #watchWhilePermitted(key: string, watch: RequiredWatch, resource: Resource): Promise<void> {
    const { signal } = watch.abortController;
    const check = this.#createPermissionCheck(watch, resource);
    const onRefused = (error: Error): void => {
      const isAnswer = error instanceof MissingPermissionsError;
      // The last finding stays while the server cannot be reached.
      if (isAnswer || !this.#options.state.view.objects.has(key))
        this.#recordFinding(key, `cannot be checked: ${oneLine(error)}`);
    };
    const open = (): void => void (watch.subscription = this.#subscribe(key, watch, resource));
    const close = (): void => {
      this.#timers.cancel(key);
      watch.subscription?.close();
      watch.store = createStore();
    };
    const { clock } = this.#options;
    await openWhilePermitted({ check, clock, signal }, { open, close, onRefused });
  }

  /** A check whether the account of the module may get the object; undefined if no account requires it. */
  #createPermissionCheck(watch: RequiredWatch, resource: Resource): (() => Promise<void>) | undefined {
    const { module, object } = watch;
    if (module === undefined) return undefined;
    const { group, plural } = resource;
    const namespace = resource.namespaced ? (object.namespace ?? this.#options.namespace) : "";
    const permission = { verb: "get", group, resource: plural, namespace, name: object.name };
    return async () => this.#options.accountLimitsOf(module)?.assertPermitted([permission]);
  }

  /** Watches the object by name: its metadata alone if only its existence is required. */
  #subscribe(key: string, watch: RequiredWatch, resource: Resource): Subscription {
    const { name, namespace = this.#options.namespace, condition, cel } = watch.object;
    const place = { name, namespace: resource.namespaced ? namespace : undefined };
    const metadataOnly = condition === undefined && cel === undefined;
    const spec = { ...toNamedSpec(resource, place), metadataOnly };
    return watch.store.watch(this.#options.hub, spec, {
      onChange: () => this.#checkObject(key, watch),
      onSynced: () => this.#checkObject(key, watch),
      onError: (error) => {
        // The last finding stays while the server cannot be reached.
        if (error !== undefined && !watch.store.isSynced)
          this.#recordFinding(key, `cannot be watched: ${error.message}`);
      },
    });
  }

  /** Checks the object now. If the last check was less than MIN_CHECK_INTERVAL_MS ago, checks it when that time is over. */
  #checkObject(key: string, watch: RequiredWatch): void {
    // Before the first list is complete, a missing object may only be late.
    if (!watch.store.isSynced || this.#timers.has(key)) return;
    const { clock } = this.#options;
    const waitMs = watch.checkedAt + MIN_CHECK_INTERVAL_MS - clock.monotonic();
    if (watch.checkedAt > 0 && waitMs > 0) return this.#scheduleCheck(waitMs, key, watch);
    watch.checkedAt = clock.monotonic();
    const [current] = watch.store.values();
    const message = describeUnmetRequirement(watch.object, current?.object, watch.test);
    this.#recordFinding(key, message);
    // The evaluation exceeded its time limit, maybe only because the machine was busy.
    if (message?.endsWith(TOO_LONG.why) === true) this.#scheduleCheck(RETRY_EXPRESSION_MS, key, watch);
  }

  #scheduleCheck(ms: number, key: string, watch: RequiredWatch): void {
    this.#timers.set(key, ms, () => this.#checkObject(key, watch));
  }

  /** Records why an object does not meet the requirement; undefined = it does. Ignores late results of closed watches. */
  #recordFinding(key: string, message: string | undefined): void {
    if (this.#watches.has(key)) this.#options.state.record("requiredObjectChecked", key, message);
  }

  /** Ends the watch of an object that no enabled module requires, and forgets the finding. */
  #stopWatch(key: string, watch: RequiredWatch): void {
    watch.abortController.abort();
    watch.subscription?.close();
    this.#timers.cancel(key);
    this.#options.state.record("requiredObjectForgotten", key);
  }
}

function createStore(): ObjectStore<StoredObject> {
  return new ObjectStore({ toStored: toStoredObject });
}

/** Describes why an object does not meet the requirement, as the end of a sentence that starts with the object; undefined = it does. */
function describeUnmetRequirement(
  { condition }: RequiredObject,
  object: JsonObject | undefined,
  test: CelTest | undefined,
): string | undefined {
  if (object === undefined) return "is not there";
  if (condition !== undefined && conditionOf(object, condition, "True") === undefined)
    return `is not ${condition}`;
  const result = test?.(object);
  if (result === undefined || result.isMet) return undefined;
  return result.why === undefined ? "does not meet its expression" : `has an expression that ${result.why}`;
}
