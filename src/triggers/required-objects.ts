/** Watches the objects that modules require (docs/MODULES.md, "What a module requires"). */

import { KindFinder } from "../kube/index.ts";
import type { Discovery, Resource, Subscription, WatchedObject, WatchHub } from "../kube/index.ts";
import { compileCel, TOO_LONG, type CelTest, type Clock, type Timer } from "../lib/index.ts";
import { conditionOf, requiredKey, type JsonObject, type RequiredObject, type Tree } from "../model/index.ts";
import type { RequiredFinding, State } from "../state/index.ts";

interface RequiredObjectsOptions {
  readonly hub: WatchHub;
  readonly discovery: Pick<Discovery, "resolve" | "invalidate">;
  readonly clock: Clock;
  /** Of objects that name none. */
  readonly namespace: string;
  readonly state: State;
}

/** An object that changes more often is looked at this often. */
const LOOK_EVERY_MS = 1000;
/** An expression that took too long is tried again, though nothing may have changed. */
const AGAIN_MS = 60_000;

/** An object that is followed. */
interface Followed {
  readonly object: RequiredObject;
  readonly end: AbortController;
  test: CelTest | undefined;
  current: WatchedObject | undefined;
  isSynced: boolean;
  subscription: Subscription | undefined;
  timer: Timer | undefined;
  lookedAt: number;
}

/** Keeps one narrow watch for each object that a module which is on requires, and records what it finds. */
export class RequiredObjects {
  readonly #options: RequiredObjectsOptions;
  readonly #kinds: KindFinder;
  readonly #followed = new Map<string, Followed>();
  #tree: Tree | undefined;
  /** Modules that require objects, in that tree. */
  #modules: readonly string[] = [];

  constructor(options: RequiredObjectsOptions) {
    this.#options = options;
    this.#kinds = new KindFinder(options);
    options.state.onChange(() => this.#followWanted());
  }

  /** Follows what modules require that are on now, and nothing else. */
  #followWanted(): void {
    const wanted = this.#wanted();
    for (const [key, followed] of this.#followed) if (!wanted.has(key)) this.#end(key, followed);
    for (const [key, object] of wanted) if (!this.#followed.has(key)) this.#follow(key, object);
  }

  close(): void {
    for (const [key, followed] of this.#followed) this.#end(key, followed);
  }

  #wanted(): ReadonlyMap<string, RequiredObject> {
    const { state } = this.#options;
    if (this.#tree !== state.tree) {
      this.#tree = state.tree;
      const modules = state.tree.modules.filter(({ requires }) => requires?.objects !== undefined);
      this.#modules = modules.map(({ name }) => name);
    }
    const on = this.#modules.flatMap((name) => state.module(name) ?? []).filter(({ enabled }) => enabled);
    const objects = on.flatMap(({ module }) => module.requires?.objects ?? []);
    return new Map(objects.map((object) => [requiredKey(object), object]));
  }

  #follow(key: string, object: RequiredObject): void {
    const followed: Followed = {
      object,
      end: new AbortController(),
      test: undefined,
      current: undefined,
      isSynced: false,
      subscription: undefined,
      timer: undefined,
      lookedAt: 0,
    };
    this.#followed.set(key, followed);
    void this.#start(key, followed).catch(() => this.#note(key, "has an expression that cannot be compiled"));
  }

  async #start(key: string, followed: Followed): Promise<void> {
    const { object, end } = followed;
    if (object.cel !== undefined) followed.test = await compileCel(object.cel);
    const resource = await this.#kinds.find(object, end.signal, ({ message }) => {
      const isUnknown = message.includes("does not know the kind");
      this.#note(
        key,
        isUnknown ? "is of a kind that the server does not know" : `cannot be found: ${message}`,
      );
    });
    if (resource === undefined || end.signal.aborted) return;
    followed.subscription = this.#subscribe(key, followed, resource);
  }

  #subscribe(key: string, followed: Followed, resource: Resource): Subscription {
    const { name, namespace = this.#options.namespace, condition, cel } = followed.object;
    const seen = (object: WatchedObject): void => void (followed.current = object);
    const moved = (object?: WatchedObject): void => {
      followed.current = object;
      this.#look(key, followed);
    };
    const spec = {
      resource,
      namespace: resource.namespaced ? namespace : undefined,
      fieldSelector: `metadata.name=${name}`,
      metadataOnly: condition === undefined && cel === undefined,
    };
    return this.#options.hub.subscribe(spec, {
      begin: () => void (followed.current = undefined),
      object: seen,
      synced: () => {
        followed.isSynced = true;
        this.#look(key, followed);
      },
      applied: moved,
      deleted: () => moved(),
      trouble: (error) => {
        // What was found stays while the server cannot be reached.
        if (error !== undefined && !followed.isSynced) this.#note(key, `cannot be watched: ${error.message}`);
      },
    });
  }

  /** At once; where the last look was a moment ago, a little later: objects are others' to change. */
  #look(key: string, followed: Followed): void {
    if (!followed.isSynced || followed.timer !== undefined) return;
    const { clock } = this.#options;
    const waitMs = followed.lookedAt + LOOK_EVERY_MS - clock.monotonic();
    if (followed.lookedAt > 0 && waitMs > 0) {
      return this.#lookIn(waitMs, key, followed);
    }
    followed.lookedAt = clock.monotonic();
    const message = judgeObject(followed.object, followed.current, followed.test);
    this.#note(key, message);
    if (message?.endsWith(TOO_LONG.why) === true) this.#lookIn(AGAIN_MS, key, followed);
  }

  #lookIn(ms: number, key: string, followed: Followed): void {
    followed.timer = this.#options.clock.setTimer(ms, () => {
      followed.timer = undefined;
      this.#look(key, followed);
    });
  }

  /** Records what is wrong with an object; undefined where nothing is. */
  #note(key: string, message: string | undefined): void {
    if (!this.#followed.has(key)) return;
    const { objects } = this.#options.state.view;
    const before = objects.get(key);
    if (before !== undefined && before.message === message) return;
    const finding: RequiredFinding = { message };
    this.#options.state.record({ objects: new Map(objects).set(key, finding) });
  }

  #end(key: string, followed: Followed): void {
    followed.end.abort();
    followed.subscription?.close();
    followed.timer?.cancel();
    this.#followed.delete(key);
    const objects = new Map(this.#options.state.view.objects);
    if (objects.delete(key)) this.#options.state.record({ objects });
  }
}

/** What is wrong with an object, in words that go on after *which*; undefined where nothing is. */
function judgeObject(
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
