import { describe, expect } from "vitest";

import { WatchHub } from "../../../src/kube/index.ts";
import { KnownSecrets, digest, silentLogger } from "../../../src/base/index.ts";
import type { JsonObject } from "../../../src/base/model/index.ts";
import type { ModuleView } from "../../../src/engine/state/index.ts";
import { Projector, StatusMirror } from "../../../src/report/index.ts";
import { ManualClock } from "../../support/clock.ts";
import { random } from "../../support/random.ts";
import type { Stored } from "../../support/object-server.ts";
import { RestlessApi } from "../../support/restless-api.ts";
import { report } from "../../support/stories.ts";
import { rows } from "../rows.ts";
import { QUIET_MIRROR, T0, moduleView, viewOf } from "../views.ts";

const CHAPTERS = 4;
const STEPS = 30;
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
      if (isForeign(old)) this.broken.push(`${method} ${path} of another operator`);
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
    const refresh = (): Promise<boolean> =>
      roll() < 0.3 ? Promise.reject(new Error("no answer")) : Promise.resolve(true);
    const where = { namespace: "ops", operatorName: "addon-operator" };
    const mirror = new StatusMirror({
      client,
      clock,
      logger: silentLogger,
      ...where,
      ...QUIET_MIRROR,
      config: { refresh },
    });
    const unwatch = mirror.watch(hub);
    this.#mirror = mirror;
    this.#close = () => {
      mirror.close();
      unwatch();
    };
    mirror.update({ view: this.#view(), queues: [] });
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
    else {
      const deeds = [
        () => this.#remove(path),
        () => this.#mark(path, old),
        () => this.#hold(path, old),
        () => this.#release(path),
        () => this.#edit(path, old),
        () => this.#take(path, old),
      ];
      this.#pick(deeds)?.();
    }
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

  /** What the objects on the server tell, by path; of other operators' objects nothing. */
  reported(): Record<string, unknown> {
    const objects = this.api.all(MODULES).filter((object) => this.#concernsUs(object));
    const operator = this.api.get(OPERATOR);
    const modules = objects.map((object) => [
      `${MODULES}/${object.metadata.name}`,
      {
        ...reportedBy(object),
        isOurs: isLabelled(object),
        isOwned: ownersOf(object).includes(operator?.metadata.uid),
      },
    ]);
    return { [OPERATOR]: reportedBy(operator), ...Object.fromEntries(modules) };
  }

  /** What they should tell. */
  wanted(): Record<string, unknown> {
    const { operatorStatus, modules } = new Projector("redacted", new KnownSecrets()).project(
      { view: this.#view(), queues: [] },
      this.clock.now(),
    );
    const ours = [...modules]
      .map(([name, { spec, status }]) => ({ path: `${MODULES}/${name}`, spec, status }))
      .filter(({ path }) => !isForeign(this.api.get(path)))
      .map(({ path, spec, status }) => [
        path,
        { ...this.#stamped(path, spec, status), isOurs: true, isOwned: true },
      ]);
    const spec = this.api.get(OPERATOR)?.["spec"];
    return { [OPERATOR]: this.#stamped(OPERATOR, spec, operatorStatus), ...Object.fromEntries(ours) };
  }

  /** What strangers left on objects and somebody took away. */
  lost(): string[] {
    return this.api.all(MODULES).flatMap((object) => {
      const word = this.#left.get(object.metadata.uid);
      if (word === undefined) return [];
      const isKept = (object.metadata as Meta).labels?.[STRANGER] === word && ownersOf(object).includes(word);
      return isKept ? [] : [`${object.metadata.name}: ${word}`];
    });
  }

  #concernsUs(object: Stored): boolean {
    if (this.#modules.has(object.metadata.name)) return !isForeign(object);
    return isLabelled(object) && object.metadata["deletionTimestamp"] === undefined;
  }

  #stamped(path: string, spec: unknown, status: { readonly conditions: readonly object[] }): object {
    const observedGeneration = this.api.get(path)?.metadata["generation"];
    const conditions = status.conditions.map((condition) => ({ ...condition, observedGeneration }));
    return reportedBy(
      structuredClone({ spec, status: { ...status, observedGeneration, conditions } }) as JsonObject,
    );
  }

  #show(): void {
    this.happened += 1;
    this.#mirror?.update({ view: this.#view(), queues: [] });
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

function isLabelled({ metadata }: Stored): boolean {
  return (metadata as Meta).labels?.[OWNER] === OURS;
}

function isForeign(object: Stored | undefined): boolean {
  const owner = (object?.metadata as Meta | undefined)?.labels?.[OWNER];
  return owner !== undefined && owner !== OURS;
}

function ownersOf({ metadata }: Stored): (string | undefined)[] {
  return ((metadata as Meta).ownerReferences ?? []).map(({ uid }) => uid);
}

/** What an object reports, without times: those of conditions depend on what was shown before. */
function reportedBy(object: JsonObject | undefined): object {
  const { conditions, ...status } = { ...(object?.["status"] as JsonObject | undefined) };
  const timeless = ((conditions ?? []) as JsonObject[]).map((condition) => ({
    ...condition,
    lastTransitionTime: "",
  }));
  return { spec: object?.["spec"], status: { ...status, conditions: timeless } };
}

/** A while in which things happen, and then all is calm. */
async function chapter(story: StatusStory): Promise<void> {
  const { api, roll, clock } = story;
  api.weather.lost = roll() < 0.5 ? 0 : 0.15;
  api.weather.torn = roll() < 0.5 ? 0 : 0.2;
  api.weather.paged = roll() < 0.5 ? 0 : 0.3;
  const meddling = roll() < 0.2 ? 0 : 0.15;
  for (let step = 0; step < STEPS; step++) {
    const what = roll();
    const name = NAMES[Math.floor(roll() * NAMES.length)] ?? "";
    if (what < 0.08) story.change(name);
    else if (what < 0.12) story.vanish(name);
    else if (what < 0.13) story.start();
    else if (what < 0.14) story.collect();
    else if (what < 0.25) await clock.advance(Math.floor(roll() * 1500));
    else if (what < 0.25 + meddling) story.meddle(roll() < 0.8 ? `${MODULES}/${name}` : OPERATOR);
    else await api.step();
  }
  api.calm();
  for (let round = 0; round < 2; round++) await api.rest();
}

async function statusStory(seed: number): Promise<void> {
  const story = new StatusStory(seed);
  const { api, clock } = story;
  for (let count = 0; count < CHAPTERS; count++) {
    await chapter(story);
    expect(story.reported()).toEqual(story.wanted());
    expect([...story.broken, ...story.lost()]).toEqual([]);
  }
  const { requests } = api;
  expect(requests).toBeLessThanOrEqual(REQUESTS_EACH * story.happened);
  await clock.advance(120_000);
  await api.rest();
  // Nothing happens, and so nobody asks.
  expect(api.requests).toBe(requests);
  story.close();
}

describe("in every order that a server and its network may choose", () => {
  report("each module's object says what was shown last", { few: 25 }, statusStory);
});
