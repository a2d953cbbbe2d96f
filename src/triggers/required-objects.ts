/** Watches the objects that modules require (docs/reference/modules.md, "What a module requires"). */

import { keepWhole, MissingKindError, ObjectStore } from "../kube/index.ts";
import type { KindFinder, Resource, Subscription, WatchHub, WholeObject } from "../kube/index.ts";
import { compileCel, TOO_LONG, type CelTest, type Clock, type Timer } from "../lib/index.ts";
import { conditionOf, requiredKey, type JsonObject, type RequiredObject, type Tree } from "../model/index.ts";
import type { RequiredFinding, State } from "../state/index.ts";

interface RequiredObjectsOptions {
  readonly hub: WatchHub;
  readonly kinds: Pick<KindFinder, "find">;
  readonly clock: Clock;
  /** Default namespace of required objects. */
  readonly namespace: string;
  readonly state: State;
}

/** Least time between two checks of an object that changes often. */
const CHECK_EVERY_MS = 1000;
/** An expression that took too long is evaluated again after this time, even if the object is unchanged. */
const RETRY_MS = 60_000;

interface Followed {
  readonly object: RequiredObject;
  readonly end: AbortController;
  test: CelTest | undefined;
  /** Contains the object if it exists. */
  readonly store: ObjectStore<WholeObject>;
  subscription: Subscription | undefined;
  timer: Timer | undefined;
  checkedAt: number;
}

/** Watches each object that an enabled module requires, by name, and records what is wrong with it. */
export class RequiredObjects {
  readonly #options: RequiredObjectsOptions;
  readonly #followed = new Map<string, Followed>();
  #tree: Tree | undefined;
  /** Names of the modules in `#tree` that require objects. */
  #modules: readonly string[] = [];

  constructor(options: RequiredObjectsOptions) {
    this.#options = options;
    options.state.onChange(() => this.#followRequired());
  }

  /** Follows exactly the objects that the modules enabled now require. */
  #followRequired(): void {
    const wanted = this.#requiredObjects();
    for (const [key, followed] of this.#followed) if (!wanted.has(key)) this.#end(key, followed);
    for (const [key, object] of wanted) if (!this.#followed.has(key)) this.#follow(key, object);
  }

  close(): void {
    for (const [key, followed] of this.#followed) this.#end(key, followed);
  }

  /** The objects that enabled modules require, by `requiredKey`. */
  #requiredObjects(): ReadonlyMap<string, RequiredObject> {
    const { state } = this.#options;
    if (this.#tree !== state.tree) {
      this.#tree = state.tree;
      const modules = state.tree.modules.filter(({ requires }) => requires?.objects !== undefined);
      this.#modules = modules.map(({ name }) => name);
    }
    const enabledModules = this.#modules
      .flatMap((name) => state.module(name) ?? [])
      .filter(({ enabled }) => enabled);
    const objects = enabledModules.flatMap(({ module }) => module.requires?.objects ?? []);
    return new Map(objects.map((object) => [requiredKey(object), object]));
  }

  /** Begins to follow an object; it has no finding before the first check. */
  #follow(key: string, object: RequiredObject): void {
    const followed: Followed = {
      object,
      end: new AbortController(),
      test: undefined,
      store: new ObjectStore({ keep: keepWhole }),
      subscription: undefined,
      timer: undefined,
      checkedAt: 0,
    };
    this.#followed.set(key, followed);
    void this.#start(key, followed).catch(() =>
      this.#record(key, "has an expression that cannot be compiled"),
    );
  }

  /** Finds the kind of the object and watches it. Records what is wrong if the server does not know the kind. */
  async #start(key: string, followed: Followed): Promise<void> {
    const { object, end } = followed;
    if (object.cel !== undefined) followed.test = await compileCel(object.cel);
    const onMissing = (error: Error): void =>
      this.#record(
        key,
        error instanceof MissingKindError
          ? "is of a kind that the server does not know"
          : `cannot be found: ${error.message}`,
      );
    const resource = await this.#options.kinds.find(object, { signal: end.signal, onMissing });
    if (resource === undefined || end.signal.aborted) return;
    followed.subscription = this.#subscribe(key, followed, resource);
  }

  /** Watches the object by name: its metadata alone if only its existence is required. */
  #subscribe(key: string, followed: Followed, resource: Resource): Subscription {
    const { name, namespace = this.#options.namespace, condition, cel } = followed.object;
    const spec = {
      resource,
      namespace: resource.namespaced ? namespace : undefined,
      fieldSelector: `metadata.name=${name}`,
      metadataOnly: condition === undefined && cel === undefined,
    };
    return followed.store.follow(this.#options.hub, spec, {
      changed: () => this.#check(key, followed),
      synced: () => this.#check(key, followed),
      issue: (error) => {
        // The last finding stays while the server cannot be reached.
        if (error !== undefined && !followed.store.isSynced)
          this.#record(key, `cannot be watched: ${error.message}`);
      },
    });
  }

  /** Checks the object now. If the last check was less than CHECK_EVERY_MS ago, checks it when that time is over. */
  #check(key: string, followed: Followed): void {
    if (!followed.store.isSynced || followed.timer !== undefined) return;
    const { clock } = this.#options;
    const waitMs = followed.checkedAt + CHECK_EVERY_MS - clock.monotonic();
    if (followed.checkedAt > 0 && waitMs > 0) {
      return this.#checkIn(waitMs, key, followed);
    }
    followed.checkedAt = clock.monotonic();
    const [current] = followed.store.values();
    const message = assessRequired(followed.object, current?.object, followed.test);
    this.#record(key, message);
    if (message?.endsWith(TOO_LONG.why) === true) this.#checkIn(RETRY_MS, key, followed);
  }

  #checkIn(ms: number, key: string, followed: Followed): void {
    followed.timer = this.#options.clock.setTimer(ms, () => {
      followed.timer = undefined;
      this.#check(key, followed);
    });
  }

  /** Records what is wrong with an object; undefined = nothing. */
  #record(key: string, message: string | undefined): void {
    if (!this.#followed.has(key)) return;
    const { objects } = this.#options.state.view;
    const before = objects.get(key);
    if (before !== undefined && before.message === message) return;
    const finding: RequiredFinding = { message };
    this.#options.state.record("observed", { objects: new Map(objects).set(key, finding) });
  }

  /** Stops to follow an object that no enabled module requires, and forgets the finding. */
  #end(key: string, followed: Followed): void {
    followed.end.abort();
    followed.subscription?.close();
    followed.timer?.cancel();
    this.#followed.delete(key);
    const objects = new Map(this.#options.state.view.objects);
    if (objects.delete(key)) this.#options.state.record("observed", { objects });
  }
}

/** What is wrong with an object, as the end of a sentence that starts with the object; undefined = nothing. */
function assessRequired(
  { condition }: RequiredObject,
  found: JsonObject | undefined,
  test: CelTest | undefined,
): string | undefined {
  if (found === undefined) return "is not there";
  if (condition !== undefined && conditionOf(found, condition, "True") === undefined)
    return `is not ${condition}`;
  const answer = test?.(found);
  if (answer === undefined || answer.isMet) return undefined;
  return answer.why === undefined ? "does not meet its expression" : `has an expression that ${answer.why}`;
}
