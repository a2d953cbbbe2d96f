import { gunzipSync } from "node:zlib";

import { describe, expect } from "vitest";

import { ReleaseStore, manifestChecksum } from "../../../src/helm/index.ts";
import { WatchHub } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import type { JsonObject } from "../../../src/base/model/index.ts";
import { ManualClock } from "../../support/clock.ts";
import { random } from "../../support/random.ts";
import { RestlessApi } from "../../support/restless-api.ts";
import { report } from "../../support/stories.ts";

/** Stories in which something went wrong once. */
const TOLD_BEFORE = [113, 176, 659, 939, 1025, 1091, 1827, 4167, 6447];
const STEPS = 70;
/** Lost events are found within the time that a story has for its end. */
const CHECK_MS = 4000;
const SECRETS = "/api/v1/namespaces/ops/secrets";
const NAMES = ["app", "db"];
const LABEL = "example.com/ours";
type ReleaseMeta = NonNullable<ReturnType<ReleaseStore["get"]>>;
const ASSUMED = "example.com/assumed";

interface Revision {
  readonly revision: number;
  readonly path: string;
}

/** What was written of an object: the last that was reported to be done, and what may have been done after it. */
class Writes {
  readonly #words = new Map<string, Set<string>>();

  done(uid: string, word: string): void {
    this.#words.set(uid, new Set([word]));
  }

  unsure(uid: string, word: string): void {
    this.#words.get(uid)?.add(word);
  }

  allow(uid: string, word: string | undefined): boolean {
    const words = this.#words.get(uid);
    return words === undefined || (word !== undefined && words.has(word));
  }
}

/** Helm that deploys, people who delete, and the store between them and a server whose network keeps no order. */
class ReleaseStory {
  readonly roll: () => number;
  readonly api: RestlessApi;
  readonly clock = new ManualClock(0);
  readonly store: ReleaseStore;
  readonly broken: string[] = [];
  readonly #labelled = new Writes();
  readonly #manifests = new Writes();
  readonly #marked = new Set<string>();
  /** What was looked at a while ago. */
  readonly #held = new Map<string, ReleaseMeta>();
  /** Releases that somebody writes to: one thing at a time. */
  readonly #taken = new Set<string>();
  /** Records that are being read. */
  readonly #read = new Set<string>();
  readonly #deployed = new Map<string, number>();
  #words = 0;
  #working = 0;

  constructor(seed: number, compareMs?: number) {
    this.roll = random(seed);
    this.api = new RestlessApi(this.roll, this.clock);
    const { client } = this.api;
    const hub = new WatchHub({
      client,
      clock: this.clock,
      logger: silentLogger,
      random: this.roll,
      compareMs,
    });
    this.store = new ReleaseStore({ client, hub, namespace: "ops", logger: silentLogger });
    this.api.isWorking = () => this.api.open < this.#working;
  }

  /** Helm deploys another revision and keeps three; the operator learns of it by its name. */
  deploy(name: string): void {
    const before = this.#revisions(name);
    const revision = (before[0]?.revision ?? 0) + 1;
    this.#deployed.set(name, (this.#deployed.get(name) ?? 0) + 1);
    for (const { path, revision: old } of before.slice(0, 1)) this.#put(name, path, [old, "superseded"]);
    this.#put(name, pathOf(name, revision), [revision, "deployed"]);
    for (const { path } of before.slice(2)) this.api.remove(path);
    const uid = this.api.get(pathOf(name, revision))?.metadata.uid;
    this.#work(async () => {
      const meta = await this.store.readDeployedRevision(name, revision);
      const isThere = this.api.get(pathOf(name, revision))?.metadata.uid === uid;
      if (isThere && (meta === undefined || meta.revision < revision))
        this.broken.push(`${name} is at ${meta?.revision} after revision ${revision} was learned`);
    });
  }

  refresh(name: string): void {
    this.#work(() => this.store.refresh(name));
  }

  /** Somebody looks at a release, to write to it a while later. */
  hold(name: string): void {
    const meta = this.store.get(name);
    if (meta !== undefined) this.#held.set(name, meta);
    // Who asks while it is being read shares the answer, and has no request of their own.
    if (meta === undefined || this.#read.has(meta.uid)) return;
    this.#read.add(meta.uid);
    this.#work(() => this.store.readSummary(meta).finally(() => this.#read.delete(meta.uid)));
  }

  label(name: string): void {
    this.#write(name, this.#labelled, (meta, word) => this.store.setLabels(meta, { [LABEL]: word }));
  }

  replaceManifest(name: string): void {
    this.#write(name, this.#manifests, (meta, word) =>
      this.store.mapManifests(meta, (text, isHook) => (isHook ? text : word)),
    );
  }

  markFailed(name: string): void {
    this.#write(name, new Writes(), async (meta, word) => {
      await this.store.markFailed(meta, word);
      this.#marked.add(meta.uid);
    });
  }

  assume(name: string): void {
    const meta = this.#held.get(name);
    if (meta !== undefined) this.store.deferLabels(meta, { [ASSUMED]: `w${this.#words++}` });
  }

  forget(name: string): void {
    const before = this.#deployed.get(name);
    this.#inTurn(name, async () => {
      await this.store.deleteRecords(name);
      const isDeployed = this.#deployed.get(name) !== before;
      if (!isDeployed && this.#revisions(name).length > 0)
        this.broken.push(`${name} was forgotten and is there`);
    });
  }

  /** What was assumed is written, as it is when helm rests. */
  settleAssumed(): void {
    for (const name of NAMES)
      for (const meta of this.store.revisions(name)) {
        const { deferredLabels: assumed } = meta;
        if (assumed !== undefined) this.#work(() => this.store.setLabels(meta, assumed));
      }
  }

  /** What the server has, against what was reported. */
  check(): void {
    for (const name of NAMES) {
      for (const { path } of this.#revisions(name)) this.#checkSecret(path);
      const newest = this.store.get(name);
      const path = this.#revisions(name)[0]?.path;
      if (newest === undefined || path === undefined) continue;
      const summary = this.store.getCachedSummary(newest);
      const { manifest } = recordOf(this.api.get(path));
      if (summary !== undefined && summary.checksum !== manifestChecksum([manifest ?? ""]))
        this.broken.push(`${path}: the summary is of another manifest`);
    }
  }

  #checkSecret(path: string): void {
    const secret = this.api.get(path);
    const { uid = "" } = secret?.metadata ?? {};
    const labels = (secret?.metadata["labels"] ?? {}) as Record<string, string>;
    const record = recordOf(secret);
    const reported = (record["info"] as { status: string }).status;
    if (reported !== labels["status"]) this.broken.push(`${path}: ${reported}, labelled ${labels["status"]}`);
    if (!this.#labelled.allow(uid, labels[LABEL])) this.broken.push(`${path}: a label is lost`);
    if (!this.#manifests.allow(uid, record["manifest"] as string))
      this.broken.push(`${path}: a manifest is lost`);
    const isMarked = ["failed", "superseded"].includes(labels["status"] ?? "");
    if (this.#marked.has(uid) && !isMarked) this.broken.push(`${path}: not failed any more`);
  }

  #write(name: string, writes: Writes, write: (meta: ReleaseMeta, word: string) => Promise<void>): void {
    const meta = this.#held.get(name) ?? this.store.get(name);
    const word = `w${this.#words++}`;
    if (meta === undefined) return;
    this.#inTurn(name, async () => {
      try {
        await write(meta, word);
        writes.done(meta.uid, word);
      } catch {
        writes.unsure(meta.uid, word);
      }
    });
  }

  #inTurn(name: string, work: () => Promise<void>): void {
    if (this.#taken.has(name)) return;
    this.#taken.add(name);
    this.#work(() => work().finally(() => this.#taken.delete(name)));
  }

  #work(work: () => Promise<unknown>): void {
    this.#working += 1;
    work()
      .catch(() => {})
      .finally(() => (this.#working -= 1));
  }

  /** Somebody deletes a revision, or all, maybe to deploy anew. */
  lose(name: string): void {
    const revisions = this.#revisions(name);
    const missing = this.roll() < 0.5 ? revisions : revisions.slice(0, 1);
    for (const { path } of missing) this.api.remove(path);
  }

  known(): unknown {
    return NAMES.map((name) =>
      this.store.revisions(name).map(({ secret, uid, resourceVersion, labels }) => ({
        name: secret,
        uid,
        resourceVersion,
        labels,
      })),
    );
  }

  onServer(): unknown {
    return NAMES.map((name) =>
      this.#revisions(name).map(({ path }) => {
        const metadata = this.api.get(path)?.metadata;
        return {
          name: metadata?.name,
          uid: metadata?.uid,
          resourceVersion: metadata?.resourceVersion,
          labels: metadata?.["labels"],
        };
      }),
    );
  }

  #put(name: string, path: string, [revision, status]: [number, string]): void {
    const secret = this.api.get(path);
    const old = (secret?.metadata["labels"] ?? {}) as Record<string, string>;
    const labels = { ...old, owner: "helm", name, version: String(revision), status };
    const record = secret === undefined ? { manifest: `w${this.#words++}` } : recordOf(secret);
    const text = JSON.stringify({ ...record, info: { status } });
    const release = base64(base64(text));
    this.api.put(path, { metadata: { namespace: "ops", labels }, data: { release } });
  }

  #revisions(name: string): Revision[] {
    return this.api
      .all(SECRETS)
      .map(({ metadata }) => metadata["labels"] as Record<string, string>)
      .filter((labels) => labels["name"] === name)
      .map((labels) => Number(labels["version"]))
      .sort((a, b) => b - a)
      .map((revision) => ({ revision, path: pathOf(name, revision) }));
  }
}

function pathOf(name: string, revision: number): string {
  return `${SECRETS}/sh.helm.release.v1.${name}.v${revision}`;
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}

/** What a Secret holds: as it was put, or packed as the store does it. */
function recordOf(secret: JsonObject | undefined): JsonObject {
  const { release = "" } = (secret?.["data"] ?? {}) as { release?: string };
  const bytes = Buffer.from(Buffer.from(release, "base64").toString("latin1"), "base64");
  const text = bytes[0] === 0x1f ? gunzipSync(bytes) : bytes;
  return JSON.parse(text.toString("utf8")) as JsonObject;
}

async function releaseStory(seed: number): Promise<void> {
  const story = new ReleaseStory(seed);
  const { api, roll } = story;
  await api.rest();
  api.weather.lost = roll() < 0.5 ? 0 : 0.15;
  api.weather.torn = roll() < 0.5 ? 0 : 0.1;
  api.weather.paged = roll() < 0.5 ? 0 : 0.3;
  await play(story);
  await api.rest();
  story.settleAssumed();
  await api.rest();
  story.check();
  expect(story.broken).toEqual([]);
  expect(story.known()).toEqual(story.onServer());
  story.store.close();
}

/** What the store observes is not so, for a while. What it learns meanwhile may be wrong. */
async function wrongStory(seed: number): Promise<void> {
  const story = new ReleaseStory(seed, CHECK_MS);
  const { api, roll } = story;
  await api.rest();
  api.weather.dropped = roll() < 0.5 ? 0 : 0.3;
  api.weather.swapped = roll() < 0.5 ? 0 : 0.3;
  api.weather.stale = roll() < 0.5 ? 0 : 0.3;
  await play(story);
  await api.rest();
  story.settleAssumed();
  await api.rest();
  expect(story.known()).toEqual(story.onServer());
  story.store.close();
}

/** Things happen for a while; then all is calm. */
async function play(story: ReleaseStory): Promise<void> {
  const { api, roll, clock } = story;
  for (let step = 0; step < STEPS; step++) {
    const what = roll();
    const name = roll() < 0.7 ? "app" : "db";
    if (what < 0.12) story.deploy(name);
    else if (what < 0.16) story.lose(name);
    else if (what < 0.2) story.refresh(name);
    else if (what < 0.3) story.hold(name);
    else if (what < 0.35) story.label(name);
    else if (what < 0.38) story.markFailed(name);
    else if (what < 0.41) story.replaceManifest(name);
    else if (what < 0.44) story.assume(name);
    else if (what < 0.46) story.forget(name);
    else if (what < 0.52) await clock.advance(Math.floor(roll() * 400));
    else await api.step();
  }
  api.calm();
}

describe("in every order that a server and its network may choose", () => {
  report("what is known of releases is what the server has", { few: 60, before: TOLD_BEFORE }, releaseStory);
  report("lost, swapped and stale observations of releases are found out", { few: 40 }, wrongStory);
});
