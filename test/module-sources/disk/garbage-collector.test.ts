import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

import { Memo } from "../../../src/lib/index.ts";
import { GarbageCollector } from "../../../src/module-sources/disk/garbage-collector.ts";
import { BlobStore } from "../../../src/module-sources/disk/blob-store.ts";
import { fetchContent } from "../../../src/module-sources/fetch/fetch-content.ts";
import { moduleDir, registryLab, tempDir } from "../../registry/artifact/lab.ts";
import { filesOf } from "../lab.ts";

// docs/guides/module-sources.md, "Limits": what nothing names is deleted an hour later.

const HOUR = 3_600_000;

/** A disk to which versions of a module are fetched, each with its signatures. */
async function disk(switches: { readonly hasReferrers: boolean }) {
  const lab = await registryLab(switches);
  const dir = tempDir();
  const store = new BlobStore(dir, []);
  store.prepareDirectories();
  const keys = lab.signers;
  const registry = { requestFromAny: (name: string, ask: (from: never) => unknown) => ask(from(name)) };
  const from = (name: string): never => lab.place(name).repository as never;
  return {
    dir,
    store,
    add: async (version: string): Promise<string> => {
      const digest = await lab.push(version, { dir: moduleDir(filesOf(version)) });
      const fetching = { store, keys, maxBytes: 1_000_000, registry: registry as never };
      await fetchContent(fetching, { name: "web", version, digest }, new Memo(1));
      return digest;
    },
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
    const collector = new GarbageCollector(store);
    await collector.collect(new Set([old, now]), start);
    await collector.collect(new Set([now]), start + 0.5 * HOUR);
    expect(await whole()).toEqual([true, true]);
    await store.saveBytes(Buffer.from("news"));
    await collector.collect(new Set([now]), start + 1.4 * HOUR);
    expect(await whole()).toEqual([true, true]);
    const left = await collector.collect(new Set([now]), start + 2.4 * HOUR);
    expect(await whole()).toEqual([false, true]);
    expect(left).toBe(await store.measureBytes());
  },
);

it("the disk is looked at when something has changed, and every hour", async () => {
  const { dir, store, add } = await disk({ hasReferrers: true });
  const digest = await add("1.4.2");
  const collector = new GarbageCollector(store);
  const path = join(dir, "blobs/sha256", digest.slice("sha256:".length));
  const seenAt = async (hours: number): Promise<number> => {
    await collector.collect(new Set([digest]), hours * HOUR);
    return statSync(path).mtimeMs / HOUR;
  };
  expect(await seenAt(1)).toBe(1);
  expect(await seenAt(1.5)).toBe(1);
  await store.saveBytes(Buffer.from("news"));
  expect(await seenAt(1.75)).toBe(1.75);
  expect(await seenAt(2.5)).toBe(1.75);
  expect(await seenAt(2.75)).toBe(2.75);
});
