import { expect, test } from "vitest";

import { TreeReader } from "../../../src/modules/index.ts";
import type { Tree } from "../../../src/base/model/index.ts";
import { directories, type Directories } from "../module-directories.ts";

// docs/reference/lifecycle.md, "Files that hooks write": one module is read again while others run.

const again = (on: Directories, tree: Tree, name = "a"): Promise<Tree> => {
  const { archives, clock } = on;
  const what = {
    modulesDirs: [on.at("m")],
    globalHooksDir: on.at("global"),
    unnumberedOrder: 1,
    strict: false,
  };
  return new TreeReader({ ...what, archives, clock }).rereadModule(tree, name);
};

test("nothing is read where nothing has changed, nor of other modules", async () => {
  const on = await directories();
  for (const name of ["a", "b"]) await on.put(`m/${name}/values.yaml`, `${name}: {x: 1}\n`);
  const tree = await on.read();
  expect(await again(on, tree)).toBe(tree);
  await on.put("m/b/values.yaml", "b: {x: 2}\n");
  expect(await again(on, tree)).toBe(tree);
  expect(await again(on, tree, "c")).toBe(tree);
  const both = await on.read(await again(on, tree));
  expect(both.modules.map(({ own }) => own.section)).toEqual([{ x: 1 }, { x: 2 }]);
});

test("new templates, values and hooks of the module count; other modules stay the same objects", async () => {
  const on = await directories();
  await on.put("m/a/enabled");
  await on.put("m/b/values.yaml", "b: {x: 1}\n");
  const tree = await on.read();
  expect(tree.modules[0]?.chart).toBe("none");
  await on.put("m/a/templates/map.yaml", "a: 1\n");
  await on.put("m/a/values.yaml", "a: {x: 2}\n");
  await on.put("m/a/hooks/h.sh", "", 0o755);
  const fresh = await again(on, tree);
  expect(fresh.modules[0]).toMatchObject({ chart: "synthetic", own: { section: { x: 2 } } });
  expect(fresh.modules[0]?.hookFiles).toHaveLength(1);
  expect(fresh.modules[1]).toBe(tree.modules[1]);
  expect((await on.read(fresh)).modules).toEqual(fresh.modules);
});

test("broken files leave the last good content and are named; what is missing waits for a second check", async () => {
  const on = await directories();
  await on.put("m/a/values.yaml", "a: {x: 1}\n");
  await on.put("m/a/templates/map.yaml");
  const tree = await on.read();
  await on.put("m/a/values.yaml", "a: [\n");
  const broken = await again(on, tree);
  expect(broken.modules[0]).toMatchObject({
    own: { section: { x: 1 } },
    problem: { file: on.at("m/a/values.yaml") as unknown },
  });
  await on.remove("m/a/templates");
  await on.put("m/a/values.yaml", "a: {x: 3}\n");
  const partial = await again(on, broken);
  expect(partial.modules[0]).toMatchObject({
    chart: "synthetic",
    unconfirmedMissing: { what: ["templates"] },
  });
  expect(partial.recheckAt).toBe(on.clock.now() + 2000);
  await on.put("m/a/templates/map.yaml");
  const back = await again(on, partial);
  expect(back.modules[0]).toMatchObject({ chart: "synthetic", own: { section: { x: 3 } } });
  expect([back.modules[0]?.unconfirmedMissing, back.recheckAt]).toEqual([undefined, undefined]);
  await on.remove("m/a");
  const missing = await again(on, back);
  expect(missing.modules[0]?.unconfirmedMissing).toMatchObject({ what: ["."] });
  await on.clock.advance(2000);
  // The next converge confirms it, and removes nothing before.
  expect((await again(on, missing)).modules[0]?.unconfirmedMissing).toBeDefined();
  expect((await on.read(missing)).modules).toEqual([]);
});

test("a chart that was exchanged counts, and one that was removed is a problem of its module alone", async () => {
  const on = await directories();
  for (const name of ["old", "new"]) await on.put(`m/a/${name}/Chart.yaml`, `name: x\nversion: "${name}"\n`);
  await on.put("m/a/addon.yaml", "chart: {path: old}\n");
  const tree = await on.read();
  await on.put("m/a/addon.yaml", "chart: {path: new}\n");
  await on.remove("m/a/old");
  const exchanged = await again(on, tree);
  expect(exchanged.modules[0]).toMatchObject({ chartDir: on.at("m/a/new"), chartVersion: "new" });
  expect(exchanged.modules[0]?.problem).toBeUndefined();
  await on.remove("m/a/new");
  const removed = await again(on, exchanged);
  expect(removed.modules[0]).toMatchObject({ chartVersion: "new", problem: { key: "chart.path" } });
});
