import { describe, expect } from "vitest";

import { ReleaseStore } from "../../src/helm/index.ts";
import { WatchHub } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/lib/index.ts";
import { ManualClock } from "../support/clock.ts";
import { random } from "../support/fuzz-world.ts";
import { RestlessApi } from "../support/restless-api.ts";
import { tell } from "../support/stories.ts";

const STEPS = 50;
const SECRETS = "/api/v1/namespaces/ops/secrets";
const LABEL = "example.com/ours";

interface Revision {
  readonly revision: number;
  readonly path: string;
}

/** Helm that deploys, people who delete, and the store between them and a server whose network keeps no order. */
class ReleaseStory {
  readonly roll: () => number;
  readonly api: RestlessApi;
  readonly clock = new ManualClock(0);
  readonly store: ReleaseStore;
  readonly broken: string[] = [];
  /** Labels that the store was told to be set, by uid. */
  readonly labelled = new Map<string, string>();
  #words = 0;

  constructor(seed: number) {
    this.roll = random(seed);
    this.api = new RestlessApi(this.roll, this.clock);
    const { client } = this.api;
    const hub = new WatchHub({ client, clock: this.clock, logger: silentLogger, random: this.roll });
    this.store = new ReleaseStore({ client, hub, namespace: "ops", logger: silentLogger });
  }

  /** Helm deploys another revision and keeps three; the operator learns of it by its name. */
  deploy(name: string): void {
    const before = this.#revisions(name);
    const revision = (before[0]?.revision ?? 0) + 1;
    for (const { path, revision: old } of before.slice(0, 1)) this.#put(name, path, [old, "superseded"]);
    this.#put(name, pathOf(name, revision), [revision, "deployed"]);
    for (const { path } of before.slice(2)) this.api.remove(path);
    const uid = this.api.get(pathOf(name, revision))?.metadata.uid;
    this.store.learn(name, revision).then(
      (meta) => {
        const isThere = this.api.get(pathOf(name, revision))?.metadata.uid === uid;
        if (isThere && (meta === undefined || meta.revision < revision))
          this.broken.push(`${name} is at ${meta?.revision} after revision ${revision} was learned`);
      },
      () => {},
    );
  }

  refresh(name: string): void {
    this.store.refresh(name).catch(() => {});
  }

  label(name: string): void {
    const meta = this.store.get(name);
    if (meta === undefined) return;
    const word = `w${this.#words++}`;
    this.store.label(meta, { [LABEL]: word }).then(
      () => this.labelled.set(meta.uid, word),
      () => {},
    );
  }

  /** Somebody deletes a revision, or all, maybe to deploy anew. */
  lose(name: string): void {
    const revisions = this.#revisions(name);
    const gone = this.roll() < 0.5 ? revisions : revisions.slice(0, 1);
    for (const { path } of gone) this.api.remove(path);
  }

  known(): unknown {
    return ["app", "db"].map((name) =>
      this.store.revisions(name).map(({ secret, uid, resourceVersion, labels }) => ({
        name: secret,
        uid,
        resourceVersion,
        labels,
      })),
    );
  }

  onServer(): unknown {
    return ["app", "db"].map((name) =>
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
    const old = (this.api.get(path)?.metadata["labels"] ?? {}) as Record<string, string>;
    const labels = { ...old, owner: "helm", name, version: String(revision), status };
    this.api.put(path, { metadata: { namespace: "ops", labels } });
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

async function releaseStory(seed: number): Promise<void> {
  const story = new ReleaseStory(seed);
  const { api, roll, clock } = story;
  await api.rest();
  api.weather.lost = roll() < 0.5 ? 0 : 0.15;
  api.weather.torn = roll() < 0.5 ? 0 : 0.1;
  for (let step = 0; step < STEPS; step++) {
    const what = roll();
    const name = roll() < 0.7 ? "app" : "db";
    if (what < 0.12) story.deploy(name);
    else if (what < 0.16) story.lose(name);
    else if (what < 0.22) story.refresh(name);
    else if (what < 0.28) story.label(name);
    else if (what < 0.36) await clock.advance(Math.floor(roll() * 400));
    else await api.step();
  }
  api.calm();
  await api.rest();
  expect(story.broken).toEqual([]);
  expect(story.known()).toEqual(story.onServer());
  story.store.close();
}

describe("in every order that a server and its network may choose", () => {
  tell("what is known of releases is what the server has", { few: 60 }, releaseStory);
});
