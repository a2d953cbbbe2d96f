import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, expect, test } from "vitest";

import type { Json, Tree } from "../../../src/base/model/index.ts";
import { ChartArchives, readTree } from "../../../src/modules/index.ts";
import { often } from "../../support/stories.ts";

const SWAPS = often(200);
const VERSIONS = 20;
const MODULES = ["a", "b", "c", "d", "e", "f"];

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "swapped-test-"));
  for (let version = 0; version < VERSIONS; version += 1) writeVersion(version);
  symlinkSync("v0", join(root, "now"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** A commit: each of its files says which one it is of. */
function writeVersion(version: number): void {
  const put = (rel: string, text: string): void => {
    const path = join(root, `v${version}`, rel);
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, text);
  };
  put("modules/values.yaml", `global: {of: ${version}}\n`);
  for (const name of MODULES) {
    put(`modules/${name}/values.yaml`, `${name}: {of: ${version}}\n`);
    put(`modules/${name}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 1.0.${version}\n`);
    put(`modules/${name}/openapi/values.yaml`, `title: "${version}"\n`);
  }
}

/** Which versions the content of a tree is of. */
function versionsIn({ modules, globalValues }: Tree): string[] {
  const of = (values: Json | undefined): string => String((values as { of?: number } | undefined)?.of);
  const all = modules.flatMap(({ own, chartVersion = "", schemas }) => [
    of(own.section),
    chartVersion.replace("1.0.", ""),
    schemas.values?.text.match(/\d+/)?.[0] ?? "none",
  ]);
  return [...new Set([of(globalValues), ...all])];
}

function read(previous?: Tree): Promise<Tree> {
  const archives = new ChartArchives(join(root, "tmp"));
  const places = { modulesDirs: [join(root, "now/modules")], globalHooksDir: undefined };
  return readTree({ ...places, unnumberedOrder: 1, strict: true, previous, archives });
}

/** Swaps the link as git-sync does, once in each read that is reported to it, at another moment each time. */
const SWAPPER = `
  const { parentPort, workerData } = require("node:worker_threads");
  const { renameSync, symlinkSync } = require("node:fs");
  const { root, reads, versions, swaps } = workerData;
  for (let swap = 1; swap <= swaps; swap += 1) {
    Atomics.wait(reads, 0, swap - 1);
    for (let spin = (swap * 7919) % 1000 * 400; spin > 0; spin -= 1);
    symlinkSync("v" + (swap % versions), root + "/next");
    renameSync(root + "/next", root + "/now");
  }
  parentPort.postMessage("done");
`;

test("git-sync swaps its link in the middle of each read: none is half of one commit and half of another", async () => {
  const reads = new Int32Array(new SharedArrayBuffer(4));
  const swapper = new Worker(SWAPPER, {
    eval: true,
    workerData: { root, reads, versions: VERSIONS, swaps: SWAPS },
  });
  const done = new Promise((resolve) => {
    swapper.once("message", resolve);
  });
  let tree = await read();
  for (let count = 1; count <= SWAPS; count += 1) {
    Atomics.store(reads, 0, count);
    Atomics.notify(reads, 0);
    tree = await read(tree);
    expect(versionsIn(tree)).toHaveLength(1);
  }
  await done;
  expect(versionsIn(await read(tree))).toEqual([String(SWAPS % VERSIONS)]);
  await swapper.terminate();
}, 3_600_000);

test("what never stops changing is left as it was read before, and looked at again", async () => {
  const before = await read();
  let version = 0;
  // Each look at the time is one more read.
  const clock = {
    now: () => {
      version += 1;
      symlinkSync(`v${version}`, join(root, "next"));
      renameSync(join(root, "next"), join(root, "now"));
      return Date.now();
    },
    monotonic: () => 0,
    setTimer: () => ({ cancel: () => {} }),
  };
  const places = { modulesDirs: [join(root, "now/modules")], globalHooksDir: undefined };
  const archives = new ChartArchives(join(root, "tmp"));
  const tree = await readTree({
    ...places,
    unnumberedOrder: 1,
    strict: true,
    previous: before,
    archives,
    clock,
  });
  expect([version, versionsIn(tree), typeof tree.recheckAt]).toEqual([10, ["0"], "number"]);
  expect(versionsIn(await read(tree))).toEqual(["10"]);
});
