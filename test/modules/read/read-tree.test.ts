import { chmod, mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import type { Tree } from "../../../src/base/model/index.ts";
import { ChartArchives, readTree } from "../../../src/modules/index.ts";
import { ManualClock } from "../../support/clock.ts";

let root: string;
/** Far in the future of the files, so that their stamps count as settled. */
const clock = new ManualClock(Date.now() + 86_400_000);

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "modules-test-"));
  await mkdir(join(root, "m"));
});
afterEach(() => rm(root, { recursive: true, force: true }));

async function put(rel: string, text = "", mode = 0o644): Promise<void> {
  const path = join(root, rel);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
  await chmod(path, mode);
}

function read(options: { dirs?: string[]; previous?: Tree; strict?: boolean } = {}): Promise<Tree> {
  return readTree({
    modulesDirs: (options.dirs ?? ["m"]).map((dir) => join(root, dir)),
    globalHooksDir: join(root, "global"),
    unnumberedOrder: 1,
    strict: options.strict ?? false,
    previous: options.previous,
    archives: new ChartArchives(join(root, "tmp")),
    clock,
  });
}

const CHART = "apiVersion: v2\nname: x\nversion: 1.2.3\n";

describe("layout", () => {
  test("reads everything a module has", async () => {
    await put("m/010-ingress-nginx/Chart.yaml", CHART);
    await put("m/010-ingress-nginx/values.yaml", "ingressNginx: {a: 1}\ningressNginxEnabled: true\n");
    await put("m/010-ingress-nginx/enabled", "#!/bin/sh\n", 0o755);
    await put("m/010-ingress-nginx/hooks/b.sh", "", 0o755);
    await put("m/010-ingress-nginx/hooks/sub/a.sh", "", 0o755);
    for (const skipped of [
      "lib/x.sh",
      "venv/bin/python",
      ".hidden",
      ".dir/x",
      "a.json",
      "a.yaml",
      "a.md",
      "a.txt",
    ])
      await put(`m/010-ingress-nginx/hooks/${skipped}`, "", 0o755);
    await put("m/010-ingress-nginx/openapi/values.yaml", "type: object\n");
    await put("m/010-ingress-nginx/crds/a.yaml");
    await put("m/values.yaml", "global: {x: 1}\ningressNginx: {b: 2}\n");
    const tree = await read();
    expect(tree.problems).toEqual([]);
    expect(tree.globalValues).toEqual({ x: 1 });
    const [module] = tree.modules;
    expect(module).toMatchObject({
      name: "ingress-nginx",
      valuesKey: "ingressNginx",
      order: 10,
      chart: "own",
      chartVersion: "1.2.3",
      enabledScript: join(root, "m/010-ingress-nginx/enabled"),
      own: { section: { a: 1 }, enabled: true },
      common: { section: { b: 2 }, enabled: undefined, file: join(root, "m/values.yaml") },
      schemas: { values: { text: "type: object\n" } },
      problem: undefined,
      warnings: [],
    });
    expect(module?.hookFiles.map((file) => file.name)).toEqual(["hooks/b.sh", "hooks/sub/a.sh"]);
    expect(module?.crdFiles).toEqual([join(root, "m/010-ingress-nginx/crds/a.yaml")]);
    expect(tree.purgeBlockers).toEqual([]);
  });

  test("orders by number, then name; numberless ones come at the default", async () => {
    for (const dir of ["002-a", "10-b", "c", "001-d"]) await put(`m/${dir}/README.md`);
    expect((await read()).modules.map((module) => module.name)).toEqual(["c", "d", "a", "b"]);
  });

  test("a symlink counts under its own name, a dangling one as a module with a problem", async () => {
    await put("elsewhere/templates/x.yaml");
    await symlink(join(root, "elsewhere"), join(root, "m/005-linked"));
    await symlink(join(root, "nowhere"), join(root, "m/006-lost"));
    const tree = await read();
    const problem = { file: join(root, "m/006-lost"), message: "is a link to nothing" };
    expect(tree.modules).toMatchObject([
      { name: "linked", order: 5, chart: "synthetic" },
      { name: "lost", order: 6, problem },
    ]);
    expect(tree.purgeBlockers).toEqual([]);
  });

  test.each(["Foo", "a_b", "foo-1", "global", "001-", "x".repeat(54)])("refuses the name %s", async (dir) => {
    await put(`m/${dir}/README.md`);
    await put("m/good/README.md");
    const tree = await read();
    expect(tree.modules.map((module) => module.name)).toEqual(["good"]);
    expect(tree.refused).toHaveLength(1);
    expect(tree.purgeBlockers).toHaveLength(1);
    expect(tree.problems).toEqual([]);
  });

  test.each(["foo-enabled", "foo-maintenance", "foo-protected"])("refuses %s beside foo", async (dir) => {
    await put(`m/${dir}/README.md`);
    expect((await read()).modules).toHaveLength(1);
    await put("m/foo/README.md");
    const tree = await read();
    expect(tree.modules.map((module) => module.name)).toEqual(["foo"]);
    expect(tree.refused?.[0]?.file).toBe(join(root, "m", dir));
  });

  test("of several directories the first wins, values are merged leaf by leaf", async () => {
    await put("a/1-x/values.yaml", "x: {from: a}\n");
    await put("b/2-x/values.yaml", "x: {from: b}\n");
    await put("b/3-why/README.md");
    await put("a/values.yaml", "global: {l: {one: a}}\nwhy: {one: a}\n");
    await put("b/values.yaml", "global: {l: {one: b, two: b}}\nwhy: {one: b, two: b}\nwhyEnabled: true\n");
    const tree = await read({ dirs: ["a", "b"] });
    expect(tree.modules.map((module) => module.order)).toEqual([1, 3]);
    expect(tree.globalValues).toEqual({ l: { one: "a", two: "b" } });
    expect(tree.modules[1]?.common).toMatchObject({ section: { one: "a", two: "b" }, enabled: true });
    expect(tree.warnings.filter((text) => text.includes("left out"))).toHaveLength(1);
  });

  test("what is not executable warns and does not run", async () => {
    await put("m/x/enabled");
    await put("m/x/hooks/a.sh", "#!/bin/sh\n");
    await put("global/b.sh", "#!/bin/sh\n");
    for (const source of ["go/main.go", "go.mod", "LICENSE", "empty"]) {
      await put(`m/x/hooks/${source}`);
      await put(`global/${source}`, "package main\n");
    }
    const tree = await read();
    expect(tree.modules[0]?.enabledScript).toBeUndefined();
    expect(tree.modules[0]?.hookFiles).toEqual([]);
    expect(tree.modules[0]?.notExecutableWarnings).toEqual([
      expect.stringContaining("hooks/a.sh: is not executable"),
      expect.stringContaining("enabled: is not executable"),
    ]);
    expect(tree.notExecutableWarnings).toEqual([expect.stringContaining("b.sh")]);
    expect([tree.modules[0]?.warnings, tree.warnings]).toEqual([[], []]);
  });

  test("global hooks lie in hooks/ where that exists", async () => {
    await put("m/x/README.md");
    await put("global/outside.sh", "", 0o755);
    expect((await read()).globalHookFiles.map((file) => file.name)).toEqual(["outside.sh"]);
    await put("global/hooks/a/b.sh", "", 0o755);
    expect((await read()).globalHookFiles.map((file) => file.name)).toEqual(["hooks/a/b.sh"]);
  });
});

describe("bad input", () => {
  test.each([
    ["values.yaml", "x: [1\n", /YAML/],
    ["values.yaml", "x: 5\n", /map/],
    ["values.yaml", "xEnabled: maybe\n", /true|boolean|flag/],
    ["Chart.yaml", "a: b: c\n", /YAML/],
  ])("a broken %s (%j) is the module's problem only", async (file, text, message) => {
    await put(`m/x/${file}`, text);
    await put("m/y/README.md");
    const tree = await read();
    expect(tree.problems).toEqual([]);
    expect(tree.modules[0]?.problem?.message).toMatch(message);
    expect(tree.modules[0]?.problem?.file).toBe(join(root, "m/x", file));
    expect(tree.modules[0]?.own.isUnreadable ?? false).toBe(file === "values.yaml");
    expect(tree.modules[1]?.problem).toBeUndefined();
  });

  test("a broken modules/values.yaml is a problem of the tree", async () => {
    await put("m/x/README.md");
    await put("m/values.yaml", "a: b: c\n");
    expect((await read()).problems).toMatchObject([
      { file: join(root, "m/values.yaml"), key: expect.stringContaining("line 1,") },
    ]);
  });

  test("a missing modules directory is an error at start and a hold at a converge", async () => {
    await put("m/x/values.yaml", "x: {}\n");
    await expect(read({ dirs: ["m", "none"] })).rejects.toThrow(/none.*modules-dir/);
    const first = await read();
    await rename(join(root, "m"), join(root, "gone"));
    await clock.advance(10_000);
    const again = await read({ previous: first });
    expect(again.modules).toEqual(first.modules);
    expect(again.purgeBlockers).toHaveLength(1);
  });

  test("an empty directory blocks purges", async () => {
    expect((await read()).purgeBlockers).toEqual([expect.stringContaining("no module")]);
  });

  test("--strict-check-values-mode-enabled asks for every values.yaml", async () => {
    await put("m/x/README.md");
    const tree = await read({ strict: true });
    expect(tree.modules[0]?.problem?.message).toBe("is missing");
    expect(tree.problems).toMatchObject([{ file: join(root, "m/values.yaml") }]);
  });
});

describe("reload", () => {
  test("a file that broke keeps its last good content, and says so", async () => {
    await put("m/x/values.yaml", "x: {a: 1}\n");
    await put("m/x/hooks/a.sh", "", 0o755);
    const first = await read();
    await put("m/x/values.yaml", "x: {a: \n");
    const broken = await read({ previous: first });
    expect(broken.modules[0]).toMatchObject({
      own: { section: { a: 1 } },
      problem: { key: expect.stringContaining("line ") },
    });
    expect(broken.modules[0]?.hookFiles).toHaveLength(1);
    await put("m/x/values.yaml", "x: {a: 2}\n");
    const healed = await read({ previous: broken });
    expect(healed.modules[0]).toMatchObject({ own: { section: { a: 2 } }, problem: undefined });
  });

  test("a broken modules/values.yaml keeps the last good one in force", async () => {
    await put("m/x/README.md");
    await put("m/values.yaml", "global: {a: 1}\nx: {b: 1}\n");
    const first = await read();
    await put("m/values.yaml", "global: {a: \n");
    const again = await read({ previous: first });
    expect(again.globalValues).toEqual({ a: 1 });
    expect(again.modules[0]?.common.section).toEqual({ b: 1 });
    expect(again.problems).toHaveLength(1);
  });

  test.each(["m/x", "m/x/hooks/a.sh", "m/x/templates"])(
    "a vanished %s is believed at the second look",
    async (rel) => {
      await put("m/x/templates/a.yaml");
      await put("m/x/hooks/a.sh", "", 0o755);
      await put("m/y/README.md");
      const first = await read();
      await rename(join(root, rel), join(root, "away"));
      const missed = await read({ previous: first });
      expect(missed.modules[0]).toMatchObject({
        name: "x",
        chart: "synthetic",
        unconfirmedMissing: { since: clock.now() },
      });
      expect(missed.modules[0]?.hookFiles).toHaveLength(1);
      expect(missed.recheckAt).toBe(clock.now() + 2000);
      await clock.advance(1000);
      const early = await read({ previous: missed });
      expect(early.modules[0]?.unconfirmedMissing).toBeDefined();
      await clock.advance(1000);
      const late = await read({ previous: early });
      expect(late.recheckAt).toBeUndefined();
      expect(late.modules).not.toEqual(first.modules);
      expect(late.modules.every((module) => module.unconfirmedMissing === undefined)).toBe(true);
    },
  );

  test("what comes back in between was never gone", async () => {
    await put("m/x/README.md");
    await put("m/y/README.md");
    const first = await read();
    await rename(join(root, "m/x"), join(root, "away"));
    const missed = await read({ previous: first });
    await rename(join(root, "away"), join(root, "m/x"));
    const back = await read({ previous: missed });
    expect(back.modules[0]?.unconfirmedMissing).toBeUndefined();
    await rename(join(root, "m/x"), join(root, "away"));
    await clock.advance(5000);
    expect((await read({ previous: back })).modules[0]?.unconfirmedMissing?.since).toBe(clock.now());
  });

  test("a renamed directory moves its module at once", async () => {
    await put("m/1-x/values.yaml", "x: {}\n");
    const first = await read();
    await rename(join(root, "m/1-x"), join(root, "m/2-x"));
    expect((await read({ previous: first })).modules).toMatchObject([{ name: "x", order: 2 }]);
  });

  test("unchanged modules are the same objects, opened by nobody", async () => {
    await put("m/x/values.yaml", "x: {}\n");
    await put("m/z/values.yaml", "z: {}\n");
    const first = await read();
    await put("m/z/values.yaml", "z: {a: 1}\n");
    const second = await read({ previous: first });
    expect(second.modules[0]).toBe(first.modules[0]);
    expect(second.modules[1]?.own.section).toEqual({ a: 1 });
  });
});

test("global schemas that cannot be used: every problem is reported, and those of the last read stay", async () => {
  await put("global/openapi/config-values.yaml", "properties: {a: {minLength: '3'}, b: {$ref: '#/x'}}\n");
  const first = await read();
  expect(first.problems.map(({ file, key }) => [file, key])).toEqual(
    expect.arrayContaining([
      [join(root, "global/openapi/config-values.yaml"), "/properties/a/minLength"],
      [join(root, "global/openapi/config-values.yaml"), "/properties/b"],
    ]),
  );
  expect(first.globalSchemas).toEqual({});
  await put("global/openapi/config-values.yaml", "type: object\n");
  const second = await read({ previous: first });
  expect(second.problems).toEqual([]);
  await put("global/openapi/config-values.yaml", "type: [");
  const third = await read({ previous: second });
  expect(third.problems).toHaveLength(1);
  expect(third.globalSchemas).toBe(second.globalSchemas);
});

test("values are reported with file and line, of the file that has them first", async () => {
  await put("m/values.yaml", "global:\n  a: 1\nweb:\n  x: 1\n");
  await put("n/values.yaml", "global:\n\n  b: 1\nweb:\n  x: 2\n  y: 2\n");
  await put("m/001-web/values.yaml", "web:\n  own: 1\n");
  const tree = await read({ dirs: ["m", "n"] });
  expect(tree.findGlobalPosition?.("/global/b")).toBe(`${join(root, "n/values.yaml")}, line 3`);
  const [web] = tree.modules;
  expect(web?.common.findPosition?.("/web/x")).toBe(`${join(root, "m/values.yaml")}, line 4`);
  expect(web?.common.findPosition?.("/web/y")).toBe(`${join(root, "n/values.yaml")}, line 6`);
  expect(web?.own.findPosition?.("/web/own")).toBe(`${join(root, "m/001-web/values.yaml")}, line 2`);
  expect(web?.own.findPosition?.("/web/none")).toBeUndefined();
});
