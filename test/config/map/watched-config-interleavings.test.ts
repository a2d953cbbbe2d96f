import { describe, expect } from "vitest";

import { Lease, WatchHub } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import type { JsonObject } from "../../../src/base/model/index.ts";
import { State } from "../../../src/engine/state/index.ts";
import { WatchedConfig } from "../../../src/config/index.ts";
import { parseConfigMap, withOverlay } from "../../../src/values/index.ts";
import type { PatchOperation } from "../../../src/values/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";
import { random } from "../../support/random.ts";
import { RestlessApi } from "../../support/restless-api.ts";
import { report } from "../../support/stories.ts";
import { handlesConfig } from "../../support/state.ts";

/** Stories in which something went wrong once. */
const TOLD_BEFORE = [11110, 11237, 11353, 13381, 15642];
const STEPS = 60;
/** Lost events are found within the time that a story has for its end. */
const CHECK_MS = 4000;
const CM = "/api/v1/namespaces/ops/configmaps/cm";
const OVER = "/api/v1/namespaces/ops/configmaps/over";

type Content = JsonObject & { readonly list?: readonly string[] };

/** Hooks that write, people who edit, and the operator between them and a server whose network keeps no order. */
class ConfigStory {
  readonly roll: () => number;
  readonly clock = new ManualClock(0);
  readonly api: RestlessApi;
  readonly state = new State({ clock: this.clock });
  readonly followed: WatchedConfig;
  readonly isOverlaid: boolean;
  /** What hooks were reported to be saved. */
  readonly saved: string[] = [];
  readonly broken: string[] = [];
  edits = 0;
  failed = 0;
  #hooks = 0;
  #running = 0;

  constructor(seed: number, compareMs?: number) {
    this.roll = random(seed);
    this.api = new RestlessApi(this.roll, this.clock);
    this.isOverlaid = this.roll() < 0.4;
    const { clock, state, api } = this;
    const { client } = api;
    this.followed = new WatchedConfig({
      client,
      hub: new WatchHub({ client, clock, logger: silentLogger, random: this.roll, compareMs }),
      state,
      clock,
      logger: silentLogger,
      namespace: "ops",
      name: "cm",
      overlay: this.isOverlaid ? { kind: "ConfigMap", name: "over" } : undefined,
      report: { configUnusable: () => {}, ownWatchChanged: () => {} },
    });
  }

  async begin(): Promise<void> {
    this.api.put(CM, { data: { global: "{list: []}" } });
    if (this.isOverlaid) this.api.put(OVER, { data: { global: "{kept: 1}" } });
    const started = this.followed.refresh().then(() => this.followed.watch());
    await this.api.rest();
    await started;
    this.state.record("configHandled", "globalConfig");
  }

  /** A hook appends its own word and sets a key, or takes away a key that it was shown. */
  hook(): void {
    if (this.#running >= 3) return;
    const word = `w${this.#hooks++}`;
    const displayed = this.state.values.configSection("global") as Content;
    const old = Object.keys(displayed).find((key) => key.startsWith("by-"));
    const missing: PatchOperation[] =
      old !== undefined && this.roll() < 0.4 ? [{ op: "remove", path: `/global/${old}` }] : [];
    const operations: PatchOperation[] = [
      { op: "add", path: "/global/list/-", value: word },
      { op: "add", path: `/global/by-${word}`, value: 1 },
      ...missing,
    ];
    this.#running += 1;
    this.followed
      .write("global", operations)
      .then(
        () => {
          this.saved.push(word);
          if (!this.inForce().includes(word)) this.broken.push(`${word} was saved and is not in force`);
        },
        () => (this.failed += 1),
      )
      .finally(() => (this.#running -= 1));
  }

  /** Someone edits another key, at once, over what the server has. */
  edit(): void {
    this.edits += 1;
    const data = { ...(this.api.get(CM)?.["data"] as Record<string, string>) };
    this.api.put(CM, { data: { ...data, other: String(this.edits) } });
  }

  /** Someone edits the global section, over what the server has. */
  editGlobal(): void {
    this.edits += 1;
    const data = { ...(this.api.get(CM)?.["data"] as Record<string, string>) };
    const global = this.#parsed(CM);
    this.api.put(CM, { data: { ...data, global: JSON.stringify({ ...global, edited: this.edits }) } });
  }

  inForce(): readonly string[] {
    return (this.state.values.configSection("global") as Content | undefined)?.list ?? [];
  }

  check(): void {
    const words = this.inForce();
    if (new Set(words).size !== words.length) this.broken.push(`twice in memory: ${words.join()}`);
  }

  #parsed(path: string): Content {
    const data = (this.api.get(path)?.["data"] ?? {}) as Record<string, string>;
    return (parseConfigMap(path, data, []).global ?? {}) as Content;
  }

  onServer(): Content {
    const parsed = (path: string) =>
      parseConfigMap(path, (this.api.get(path)?.["data"] ?? {}) as Record<string, string>, []);
    return (withOverlay(parsed(CM), this.isOverlaid ? parsed(OVER) : undefined).global ?? {}) as Content;
  }
}

async function configStory(seed: number): Promise<void> {
  const story = new ConfigStory(seed);
  const { api, roll } = story;
  await story.begin();
  await play(story, () => {
    api.weather.lost = roll() < 0.5 ? 0 : 0.15;
    api.weather.torn = roll() < 0.5 ? 0 : 0.1;
  });
}

/** What the operator observes is not so, for a while. */
async function wrongStory(seed: number): Promise<void> {
  const story = new ConfigStory(seed, CHECK_MS);
  const { api, roll } = story;
  await story.begin();
  await play(story, () => {
    api.weather.dropped = roll() < 0.5 ? 0 : 0.3;
    api.weather.swapped = roll() < 0.5 ? 0 : 0.3;
    api.weather.stale = roll() < 0.5 ? 0 : 0.3;
  });
}

/** Hooks and people write in this weather; then all is calm, and what was saved is in force. */
async function play(story: ConfigStory, makeWeather: () => void): Promise<void> {
  const { api, roll, clock } = story;
  const isEdited = roll() < 0.7;
  const losesOverlay = story.isOverlaid && roll() < 0.5;
  makeWeather();
  for (let step = 0; step < STEPS; step++) {
    const what = roll();
    if (what < 0.12) story.hook();
    else if (what < 0.16 && isEdited) story.edit();
    else if (what < 0.2 && isEdited) story.editGlobal();
    else if (what < 0.22 && losesOverlay) api.remove(OVER);
    else if (what < 0.3) await clock.advance(Math.floor(roll() * 30));
    else await api.step();
    story.check();
  }
  api.calm();
  await api.rest();
  story.check();
  const isOursAlone = story.edits === 0 && story.failed === 0 && !losesOverlay;
  if (isOursAlone && !handlesConfig(story.state))
    story.broken.push("what only hooks wrote asks for a reload");
  expect(story.broken).toEqual([]);
  const list = story.onServer().list ?? [];
  expect(new Set(list).size).toBe(list.length);
  expect(list).toEqual(expect.arrayContaining(story.saved));
  expect(story.state.values.configSection("global")).toEqual(story.onServer());
  expect(story.state.view.config.condition).toBe("ok");
  story.followed.close();
}

/** Three operators, one Lease. */
async function leaseStory(seed: number): Promise<void> {
  const roll = random(seed);
  const clock = new ManualClock(0);
  const api = new RestlessApi(roll, clock);
  const stop = new AbortController();
  const leases = ["a", "b", "c"].map((pod) => {
    const identity = { name: pod, pid: "1", start: "", bootId: "", pidNamespace: "" };
    return new Lease({
      client: api.client,
      clock,
      logger: silentLogger,
      namespace: "ops",
      name: "lease",
      identity,
      times: { durationMs: 35_000, renewDeadlineMs: 30_000, retryMs: 10_000 },
      events: { onHeld: () => {}, onFailing: () => {}, onLost: () => {}, onWaiting: () => {} },
    });
  });
  for (const lease of leases) lease.acquire(stop.signal).catch(() => {});
  api.weather.lost = roll() < 0.5 ? 0 : 0.3;
  for (let step = 0; step < 80; step++) {
    if (roll() < 0.25) await clock.advance(Math.floor(roll() * 12_000));
    else await api.step();
    const held = leases.filter((lease) => lease.isHeld).length;
    expect(held, `holders at ${clock.now()} ms`).toBeLessThanOrEqual(1);
  }
  stop.abort();
  await settle();
}

describe("in every order that a server and its network may choose", () => {
  report("what hooks write is saved once and in force once", { few: 40, before: TOLD_BEFORE }, configStory);
  const before = [801, 870, 1030, 1376, 3906, 8047, 9134];
  report("what hooks write survives lost, swapped and stale observations", { few: 40, before }, wrongStory);
  report("one operator holds the lease", { few: 100 }, leaseStory);
});
