import { existsSync, mkdirSync, readdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { expect, it } from "vitest";

import type { KubeClient } from "../../../src/kube/index.ts";
import { BlobStore } from "../../../src/sources/disk/blob-store.ts";
import { ContentFetcher } from "../../../src/sources/fetch/fetch-content.ts";
import { moduleDir, registryLab, tempDir } from "../registry/artifact/lab.ts";
import { ManualClock } from "../../support/clock.ts";
import { filesOf } from "../lab.ts";

// docs/guides/module-sources.md, "Limits": what nothing names is deleted an hour later.

const HOUR = 3_600_000;

/** A disk to which versions of a module are fetched, each with its signatures. */
async function disk(switches: { readonly hasReferrers: boolean }) {
  const lab = await registryLab(switches);
  const dir = tempDir();
  const store = new BlobStore(dir, []);
  await store.prepareDirectories();
  const keys = lab.signers;
  const client = {} as KubeClient;
  const fetcher = new ContentFetcher(
    { client, namespace: "ops", clock: new ManualClock(), env: {}, maxBytes: 1_000_000 },
    store,
  );
  const registry = { requestFromAny: (name: string, ask: (from: never) => unknown) => ask(from(name)) };
  const from = (name: string): never => lab.place(name).repository as never;
  return {
    dir,
    store,
    add: async (version: string): Promise<string> => {
      const digest = await lab.push(version, { dir: moduleDir(filesOf(version)) });
      await fetcher.fetch({ name: "web", version, digest }, { keys, registry: registry as never });
      return digest;
    },
    verify: (digest: string) => store.verifyContent({ name: "web", version: undefined, digest }, keys),
    isWhole: (digest: string): Promise<boolean> =>
      store.verifyContent({ name: "web", version: undefined, digest }, keys).then(
        ({ layer }) => store.hasBlob(layer),
        () => false,
      ),
  };
}

it.each([{ hasReferrers: true }, { hasReferrers: false }])(
  "what is needed stays, with everything that verifies it; the rest is deleted an hour later: %j",
  async (switches) => {
    const { store, add, isWhole } = await disk(switches);
    const [old, now] = [await add("1.4.2"), await add("1.5.0")];
    const whole = async (): Promise<boolean[]> => [await isWhole(old), await isWhole(now)];
    const start = Date.now();
    await store.collectGarbage(new Set([old, now]), start);
    await store.collectGarbage(new Set([now]), start + 0.5 * HOUR);
    expect(await whole()).toEqual([true, true]);
    await store.saveBytes(Buffer.from("news"));
    await store.collectGarbage(new Set([now]), start + 1.4 * HOUR);
    expect(await whole()).toEqual([true, true]);
    const left = await store.collectGarbage(new Set([now]), start + 2.4 * HOUR);
    expect(await whole()).toEqual([false, true]);
    expect(left).toBe(await store.measureBytes());
  },
);

it("the disk is looked at when something has changed, and every hour", async () => {
  const { dir, store, add } = await disk({ hasReferrers: true });
  const digest = await add("1.4.2");
  const path = join(dir, "blobs/sha256", digest.slice("sha256:".length));
  const seenAt = async (hours: number): Promise<number> => {
    await store.collectGarbage(new Set([digest]), hours * HOUR);
    return statSync(path).mtimeMs / HOUR;
  };
  expect(await seenAt(1)).toBe(1);
  expect(await seenAt(1.5)).toBe(1);
  await store.saveBytes(Buffer.from("news"));
  expect(await seenAt(1.75)).toBe(1.75);
  expect(await seenAt(2.5)).toBe(1.75);
  expect(await seenAt(2.75)).toBe(2.75);
});

const OLD = 0;

it.each([0, 1, 2, 4, 8, 16, 32])(
  "content that is unpacked while garbage is collected stays: %i turns later",
  async (turns) => {
    const { store, add, verify } = await disk({ hasReferrers: true });
    const found = await verify(await add("1.4.2"));
    const path = await store.unpack(found);
    utimesSync(path, OLD, OLD);
    const collecting = store.collectGarbage(new Set(), Date.now());
    for (let turn = 0; turn < turns; turn += 1) await setImmediate();
    const again = await store.unpack(found);
    await collecting;
    expect(existsSync(join(again, "Chart.yaml"))).toBe(true);
  },
);

it("a directory is deleted as a whole, and a start deletes what a killed process has left of it", async () => {
  const { dir, store, add, verify } = await disk({ hasReferrers: true });
  const path = await store.unpack(await verify(await add("1.4.2")));
  mkdirSync(join(path, "many"));
  for (let file = 0; file < 500; file += 1) writeFileSync(join(path, "many", `${file}`), "");
  utimesSync(path, OLD, OLD);
  const count = (): number => (existsSync(path) ? readdirSync(path, { recursive: true }).length : 0);
  const [all, seen] = [count(), new Set<number>()];
  const progress = { isOver: false };
  const collecting = store.collectGarbage(new Set(), Date.now()).finally(() => (progress.isOver = true));
  for (; !progress.isOver; await setImmediate()) seen.add(count());
  await collecting;
  expect(seen.add(count())).toEqual(new Set([all, 0]));
  const parts = join(dir, "blobs/part");
  expect(readdirSync(parts)).toEqual([]);
  mkdirSync(join(parts, "half/many"), { recursive: true });
  await new BlobStore(dir, []).prepareDirectories();
  expect(readdirSync(parts)).toEqual([]);
});
