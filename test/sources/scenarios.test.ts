import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { ApiError } from "../../src/kube/index.ts";
import { random } from "../support/random.ts";
import { seedsOf } from "../support/stories.ts";
import { LOCK, SOURCES, sourcesLab, type SourcesLab } from "./lab.ts";

// Whatever registry, disk, network and process do: no module goes that a user has not removed.

const VERSIONS = ["1.4.2", "1.5.0", "1.6.0"];
const STEPS = 8;

let definitions = 1;

type Act = (lab: SourcesLab, roll: () => number) => void | Promise<void>;

/** What happens to a running operator. None of it is a user's removal. */
const ACTS: readonly Act[] = [
  (it, roll) => it.source({ web: { version: VERSIONS[Math.floor(roll() * VERSIONS.length)] ?? "" } }),
  (it) => it.source({ web: { version: "^1" } }),
  (it) => it.source({ web: { version: ">=1.4.2" } }, "platform", { approval: "patch" }),
  ({ lab }) => void (lab.registry.failures = { status: 503, left: 40 }),
  ({ lab }) => void (lab.registry.failures = { status: 404, left: 40 }),
  ({ lab }) => void (lab.registry.failures = { status: 401, left: 40 }),
  ({ lab }) => void (lab.registry.failures = undefined as never),
  ({ lab }) => lab.registry.manifests.clear(),
  ({ lab }) => lab.registry.blobs.clear(),
  ({ api }) => void Object.assign(api.weather, { lost: 0.2, torn: 0.2, paged: 0.3 }),
  ({ api }) => api.calm(),
  (it) => damage(it),
  (it) => fail(it),
  (it) => {
    const refusal = new ApiError({ status: 403, reason: "Forbidden", message: "no right" });
    it.refuse = ({ path }) => (path === SOURCES ? refusal : undefined);
  },
  (it) => void (it.refuse = () => undefined),
  (it) => it.start(),
  async (it) => {
    await it.stop();
    rmSync(it.dir, { recursive: true, force: true });
    await it.start();
  },
  async (it) => {
    it.crd = undefined;
    it.removeSource();
    await it.pass(10_000);
    // A definition that is made again has another uid.
    it.crd = `crd-${(definitions += 1)}`;
  },
];

function damage({ dir }: SourcesLab): void {
  const blobs = join(dir, "blobs/sha256");
  for (const name of readdirSync(blobs)) writeFileSync(join(blobs, name), "damaged");
}

/** helm goes back to the revision before an update. */
async function fail(it: SourcesLab): Promise<void> {
  it.state.recordTree(await it.tree());
  const previous = it.locked("web")?.["previous"] as { digest: string } | undefined;
  if (previous === undefined) return;
  it.installed.set("web", previous.digest);
  it.state.recordModule("web", "runRolledBack", "helm failed", it.clock.now());
}

/** The lock is never without the module, and neither is what the reader of directories is told. */
function check(it: SourcesLab, story: readonly number[]): void {
  const [locked, origin] = [it.locked("web"), it.registryModules.origins.get("web")];
  const isKept = locked !== undefined && locked["removed"] === undefined && origin?.removed === false;
  if (!isKept) throw new Error(`removed after ${story.join(", ")}: ${JSON.stringify({ locked, origin })}`);
}

describe("random scenarios", { timeout: 300_000 }, () => {
  it.each(seedsOf(12))("seed %i", async (seed) => {
    const roll = random(seed);
    const it = await sourcesLab(roll);
    it.rounds = 50;
    for (const version of VERSIONS) await it.push(version);
    it.source({ web: { version: "1.4.2" } });
    await it.start();
    await it.pass(10_000, () => it.content("web") === "1.4.2");
    expect(it.api.get(LOCK)).toBeDefined();
    const story: number[] = [];
    for (let step = 0; step < STEPS; step += 1) {
      const act = Math.floor(roll() * ACTS.length);
      story.push(act);
      // A start whose requests are lost ends the process, before it reads a directory; the next one tries again.
      await Promise.resolve(ACTS[act]?.(it, roll)).catch(() => {
        it.api.calm();
        return it.start();
      });
      await it.pass(roll() < 0.5 ? 1000 : 30_000);
      check(it, story);
    }
  });

  it("notices a user's removal, which the others are not", async () => {
    const it = await sourcesLab();
    await it.push("1.4.2");
    it.source({ web: { version: "1.4.2" } });
    await it.start();
    await it.pass(10_000, () => it.content("web") === "1.4.2");
    it.source({});
    await it.pass(60_000, () => it.locked("web")?.["removed"] === true);
    expect(() => check(it, [])).toThrow(/removed after/);
  });
});
