import { describe, expect } from "vitest";

import { WatchHub } from "../../src/kube/index.ts";
import { digest, silentLogger } from "../../src/lib/index.ts";
import type { JsonObject } from "../../src/model/index.ts";
import type { ModuleView } from "../../src/state/index.ts";
import { Projector, StatusMirror, watchOwnObjects } from "../../src/status/index.ts";
import { ManualClock } from "../support/clock.ts";
import { random } from "../support/fuzz-world.ts";
import type { Stored } from "../support/object-server.ts";
import { RestlessApi } from "../support/restless-api.ts";
import { tell } from "../support/stories.ts";
import { rows } from "./rows.ts";
import { T0, moduleView, viewOf } from "./views.ts";

const STEPS = 80;
const HOME = "/apis/addon-operator.io/v1alpha1/namespaces/ops";
const MODULES = `${HOME}/addonmodules`;
const OPERATOR = `${HOME}/addonoperators/addon-operator`;
const NAMES = ["a", "b", "c"];
const OWNER = "addon-operator.io/managed-by";
const OURS = digest("ops/addon-operator");
const STRANGER = "example.com/stranger";
/** Most requests that one thing that happened may cost: a look, an object, its status, and all of it again. */
const REQUESTS_EACH = 6;

type Meta = Stored["metadata"] & {
  readonly labels?: Record<string, string>;
  readonly finalizers?: string[];
  readonly ownerReferences?: { readonly kind: string; readonly name: string; readonly uid: string }[];
};

/** Modules that change, people who meddle, and the mirror between them and a server whose network keeps no order. */
class StatusStory {
  readonly roll: () => number;
  readonly clock = new ManualClock(T0);
  readonly api: RestlessApi;
  readonly broken: string[] = [];
  /** Things that happened, each of which may cost some requests. */
  happened = 0;
  #modules = new Map<string, ModuleView>();
  /** What strangers left on an object, by its uid. */
  readonly #left = new Map<string, string>();
  #close = (): void => {};
  #mirror: StatusMirror | undefined;

  constructor(seed: number) {
    this.roll = random(seed);
    this.api = new RestlessApi(this.roll, this.clock);
    this.api.server.defaults = { status: { observedGeneration: -1 } };
    this.api.server.onWrite = ({ method, path }, old) => {
      if (old !== undefined && isForeign(old)) this.broken.push(`${method} ${path} of another operator`);
    };
    for (const name of NAMES) if (this.roll() < 0.7) this.change(name);
    this.start();
  }

  /** The operator begins, maybe after another that was killed. */
  start(): void {
    this.#close();
    this.happened += NAMES.length;
    const { api, clock, roll } = this;
    const { client } = api;
    const hub = new WatchHub({ client, clock, logger: silentLogger, random: roll });
    const specChanged = async (): Promise<void> => {
      if (roll() < 0.3) throw new Error("no answer");
    };
    const where = { namespace: "ops", operatorName: "addon-operator" };
    const mirror = new StatusMirror({ client, clock, logger: silentLogger, ...where, specChanged });
    const unwatch = watchOwnObjects(hub, mirror, "ops");
    this.#mirror = mirror;
    this.#close = () => {
      mirror.close();
      unwatch();
    };
    mirror.update(this.#view());
  }

  close(): void {
    this.#close();
  }

  /** A module comes, or goes on to another state. */
  change(name: string): void {
    const row = this.#pick(rows);
    const configDigest = `v1-c${Math.floor(this.roll() * 3)}`;
    this.#modules.set(name, moduleView(name, { configDigest, ...row?.view }));
    this.#show();
  }

  /** A module's directory goes. */
  vanish(name: string): void {
    this.#modules.delete(name);
    this.#show();
  }

  /** Somebody meddles with an object, over what the server has. */
  meddle(path: string): void {
    this.happened += path === OPERATOR ? NAMES.length : 1;
    const old = this.api.get(path);
    if (old === undefined) this.#make(path);
    else
      this.#pick([this.#remove, this.#mark, this.#hold, this.#release, this.#edit, this.#take])?.call(
        this,
        path,
        old,
      );
  }

  /** What belongs to an AddonOperator that is gone goes as well. */
  collect(): void {
    const uid = this.api.get(OPERATOR)?.metadata.uid;
    for (const { metadata } of this.api.all(MODULES)) {
      const owners = (metadata as Meta).ownerReferences ?? [];
      const isOrphan =
        owners.length > 0 && owners.every((owner) => owner.kind === "AddonOperator" && owner.uid !== uid);
      if (!isOrphan) continue;
      this.happened += 1;
      this.api.remove(`${MODULES}/${metadata.name}`);
    }
  }

  /** What is on the server, and what there should be. */
  check(): void {
    const view = this.#view();
    const wanted = new Projector("redacted").project(view, this.clock.now());
    const operator = this.api.get(OPERATOR);
    expect(told(operator)).toEqual(asTold(operator, undefined, wanted.operator.status));
    for (const [name, { spec, status }] of wanted.modules) {
      const object = this.api.get(`${MODULES}/${name}`);
      if (object !== undefined && isForeign(object)) continue;
      expect(told(object), name).toEqual(asTold(object, spec, status));
      expect((object?.metadata as Meta).labels, name).toMatchObject({ [OWNER]: OURS });
      expect(ownersOf(object), name).toContain(operator?.metadata.uid);
    }
    const isLeft = ({ metadata }: Stored): boolean =>
      !wanted.modules.has(metadata.name) && (metadata as Meta).labels?.[OWNER] === OURS;
    expect(this.api.all(MODULES).filter((object) => isLeft(object) && !isHeld(object))).toEqual([]);
    for (const object of this.api.all(MODULES)) this.#checkLeft(object);
    expect(this.broken).toEqual([]);
  }

  #checkLeft(object: Stored): void {
    const word = this.#left.get(object.metadata.uid);
    if (word === undefined) return;
    expect((object.metadata as Meta).labels, object.metadata.name).toMatchObject({ [STRANGER]: word });
    expect(ownersOf(object), object.metadata.name).toContain(word);
  }

  #show(): void {
    this.happened += 1;
    this.#mirror?.update(this.#view());
  }

  #view(): ReturnType<typeof viewOf> {
    return viewOf([...this.#modules.values()]);
  }

  #make(path: string): void {
    if (path === OPERATOR)
      this.api.put(path, { metadata: { namespace: "ops" }, spec: {}, ...this.api.server.defaults });
    else this.api.put(path, { ...this.#manifest(this.roll() < 0.7 ? {} : { [OWNER]: "other" }) });
  }

  #manifest(labels: Record<string, string>): JsonObject {
    return { metadata: { namespace: "ops", labels }, spec: { enabled: false }, ...this.api.server.defaults };
  }

  #remove(path: string): void {
    this.api.remove(path);
  }

  /** A label and an owner of their own, that nobody else may take away. */
  #mark(path: string, { metadata }: Stored): void {
    const { labels = {}, ownerReferences = [] } = metadata as Meta;
    const word = `w${this.happened}`;
    const others = ownerReferences.filter(({ kind }) => kind === "AddonOperator");
    const owner = { apiVersion: "v1", kind: "ConfigMap", name: word, uid: word };
    this.api.put(path, {
      metadata: { labels: { ...labels, [STRANGER]: word }, ownerReferences: [...others, owner] },
    });
    this.#left.set(metadata.uid, word);
  }

  #hold(path: string, { metadata }: Stored): void {
    if (metadata["deletionTimestamp"] === undefined)
      this.api.put(path, { metadata: { finalizers: [STRANGER] } });
  }

  #release(path: string): void {
    this.api.put(path, { metadata: { finalizers: [] } });
  }

  #edit(path: string, { spec, status, metadata }: Stored): void {
    const { [OWNER]: _, ...labels } = { ...(metadata as Meta).labels };
    const { conditions: __, ...rest } = { ...(status as JsonObject) };
    const change = this.#pick<JsonObject>([
      { spec: { ...(spec as JsonObject), configDigest: `theirs-${this.happened}` } },
      { status: { ...(status as JsonObject), state: "Invalid", theirs: this.happened } },
      { status: rest },
      ...(path === OPERATOR ? [] : [{ metadata: { labels } }]),
    ]);
    this.api.put(path, change ?? {});
  }

  /** Another operator has it from now on. */
  #take(path: string, { metadata }: Stored): void {
    if (path === OPERATOR || this.roll() < 0.5) return;
    this.api.put(path, { metadata: { labels: { ...(metadata as Meta).labels, [OWNER]: "other" } } });
  }

  #pick<T>(from: readonly T[]): T | undefined {
    return from[Math.floor(this.roll() * from.length)];
  }
}

function isForeign({ metadata }: Stored): boolean {
  const owner = (metadata as Meta).labels?.[OWNER];
  return owner !== undefined && owner !== OURS;
}

function isHeld({ metadata }: Stored): boolean {
  return metadata["deletionTimestamp"] !== undefined;
}

function ownersOf(object: Stored | undefined): string[] {
  return ((object?.metadata as Meta | undefined)?.ownerReferences ?? []).map(({ uid }) => uid);
}

/** What an object tells, without times: those of conditions depend on what was shown before. */
function told(object: Stored | undefined): unknown {
  const { conditions = [], ...status } = {
    ...(object?.["status"] as JsonObject & { conditions?: JsonObject[] }),
  };
  const timeless = conditions.map(({ lastTransitionTime: _, ...condition }) => condition);
  return { spec: object?.["spec"], status: { ...status, conditions: timeless } };
}

function asTold(
  object: Stored | undefined,
  spec: unknown,
  status: { readonly conditions: readonly object[] },
): unknown {
  const observedGeneration = object?.metadata["generation"];
  const conditions = status.conditions.map((condition) => ({ ...condition, observedGeneration }));
  const stamped = { status: { ...status, observedGeneration, conditions } } as unknown as Stored;
  return told(structuredClone({ ...stamped, spec: spec ?? object?.["spec"] } as unknown as Stored));
}

async function statusStory(seed: number): Promise<void> {
  const story = new StatusStory(seed);
  const { api, roll, clock } = story;
  api.weather.lost = roll() < 0.5 ? 0 : 0.15;
  api.weather.torn = roll() < 0.5 ? 0 : 0.1;
  api.weather.paged = roll() < 0.5 ? 0 : 0.3;
  const isMeddled = roll() < 0.8;
  for (let step = 0; step < STEPS; step++) {
    const what = roll();
    const name = NAMES[Math.floor(roll() * NAMES.length)] ?? "";
    if (what < 0.08) story.change(name);
    else if (what < 0.12) story.vanish(name);
    else if (what < 0.22 && isMeddled) story.meddle(roll() < 0.8 ? `${MODULES}/${name}` : OPERATOR);
    else if (what < 0.24) story.collect();
    else if (what < 0.25) story.start();
    else if (what < 0.4) await clock.advance(Math.floor(roll() * 1500));
    else await api.step();
  }
  api.calm();
  for (let round = 0; round < 3; round++) await api.rest();
  story.check();
  const { requests } = api;
  expect(requests).toBeLessThanOrEqual(REQUESTS_EACH * story.happened);
  await clock.advance(120_000);
  await api.rest();
  expect(api.requests, "requests while nothing happens").toBe(requests);
  story.close();
}

describe("in every order that a server and its network may choose", () => {
  tell("each module's object says what was shown last", { few: 100 }, statusStory);
});
