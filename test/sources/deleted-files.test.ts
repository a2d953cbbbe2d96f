import { readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { expect, it } from "vitest";

import { sourcesLab, type SourcesLab } from "./lab.ts";

// Someone deletes files of modules from registries while the operator runs.

const MINUTE = 60_000;
const NAMES = ["cache", "db", "web"];

async function running(): Promise<SourcesLab> {
  const lab = await sourcesLab();
  for (const name of NAMES) await lab.push("1.4.2", { name });
  lab.source(Object.fromEntries(NAMES.map((name) => [name, { version: "1.4.2" }])));
  await lab.start();
  await lab.pass(MINUTE, () => lab.status().summary === "3/3");
  await lab.pass(1000);
  lab.lab.registry.calls.length = 0;
  return lab;
}

const contentsOf = (lab: SourcesLab) => NAMES.map((name) => lab.content(name));

/** The modules of a read, and what each waits for. */
async function read(lab: SourcesLab): Promise<unknown[]> {
  const tree = await lab.tree();
  return tree.modules.map(({ name, problem }) => [name, problem?.retriedAs]);
}

it("the whole directory is made again, and its content fetched", async () => {
  const lab = await running();
  rmSync(lab.dir, { recursive: true });
  expect(await read(lab)).toEqual(NAMES.map((name) => [name, "SourceUnavailable"]));
  expect(lab.state.view.modulesWithChangedFiles).toBe("all");
  expect(lab.registryModules.purgeBlockers).toHaveLength(3);
  // At once, and not with the next regular check.
  const { nextCheck } = lab.status();
  await lab.pass(MINUTE, () => contentsOf(lab).every((version) => version === "1.4.2"));
  expect(lab.clock.now()).toBeLessThan(Date.parse(nextCheck ?? ""));
  await lab.pass(1000, () => lab.status().summary === "3/3");
  expect(await read(lab)).toEqual(NAMES.map((name) => [name, undefined]));
  expect(readdirSync(join(lab.dir, "blobs/sha256"))).not.toEqual([]);
});

it("the whole directory stays missing in the status until the registry answers", async () => {
  const lab = await running();
  lab.lab.registry.instead = () => ({ status: 503 });
  rmSync(lab.dir, { recursive: true });
  await read(lab);
  await lab.pass(MINUTE, () => lab.status().summary === "0/3");
  expect(lab.status().conditions).toContainEqual(expect.objectContaining({ type: "Ready", status: "False" }));
  lab.lab.registry.instead = () => undefined;
  await lab.pass(10 * MINUTE, () => lab.status().summary === "3/3");
  expect(contentsOf(lab)).toEqual(["1.4.2", "1.4.2", "1.4.2"]);
});

it("the next regular check finds the whole directory deleted, without a read", async () => {
  const lab = await running();
  rmSync(lab.dir, { recursive: true });
  await lab.pass(60 * MINUTE, () => contentsOf(lab).every((version) => version === "1.4.2"));
  expect(contentsOf(lab)).toEqual(["1.4.2", "1.4.2", "1.4.2"]);
});

it.each<[string, (lab: SourcesLab) => string]>([
  ["the content of a module", (lab) => realpathSync(join(lab.dir, "modules/web"))],
  ["all unpacked content", (lab) => join(lab.dir, "unpacked")],
  ["a link", (lab) => join(lab.dir, "modules/web")],
  ["all links", (lab) => join(lab.dir, "modules")],
])("restored from disk before the next read: %s", async (_, find) => {
  const lab = await running();
  rmSync(find(lab), { recursive: true });
  expect(await read(lab)).toEqual(NAMES.map((name) => [name, undefined]));
  expect(contentsOf(lab)).toEqual(["1.4.2", "1.4.2", "1.4.2"]);
  expect(lab.lab.registry.calls).toEqual([]);
});

it("copies of fetched content do not keep a newer version from being stored", async () => {
  const lab = await running();
  rmSync(join(lab.dir, "blobs"), { recursive: true });
  await lab.push("1.5.0");
  lab.source({ web: { version: "1.5.0" } });
  await lab.pass(MINUTE, () => lab.content("web") === "1.5.0");
  expect(lab.content("web")).toBe("1.5.0");
});

it("a directory that cannot be made again is reported, and does not fail the read", async () => {
  const lab = await running();
  const dir = join(lab.dir, "modules");
  rmSync(dir, { recursive: true });
  writeFileSync(dir, "");
  await expect(lab.registryModules.restore?.()).resolves.toBeUndefined();
  expect(lab.warnings.join("\n")).toContain("cannot be restored");
});
