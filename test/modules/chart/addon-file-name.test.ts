import { describe, expect, it } from "vitest";

import type { Module } from "../../../src/base/model/index.ts";
import { NEWER_KEYS } from "../../../src/modules/chart/addon-file.ts";
import schema from "../../../src/modules/addon.schema.json" with { type: "json" };
import { directories, type Directories } from "../module-directories.ts";

// docs/reference/addon-yaml.md: what becomes of a `module.yaml`.

async function module(on: Directories): Promise<Module> {
  const { modules } = await on.read();
  return modules[0] as Module;
}

const NOT_OURS: Record<string, string> = {
  "Deckhouse's keys": `name: x
weight: 340
stage: Experimental
namespace: d8-x
subsystems: [networking]
tags: [a]
descriptions: {en: "An x"}
requirements: {deckhouse: ">=1.61", kubernetes: ">=1.27", modules: {y: ">=1 !optional"}}
disable: {confirmation: true, message: "Are you sure?"}
accessibility: {editions: {ee: {available: true, enabledInBundles: [Default]}}}
`,
  "one key that is not ours": "name: x\nrequires: {modules: {nowhere: '*'}}\n",
  "ours as a key below another": "requirements: {requires: {modules: {nowhere: '*'}}}\n",
  "broken YAML": "name: [\n",
  "a list": "- requires\n",
  "a key of both that is newer than our name": "namespace: d8-x\n",
  nothing: "# nothing\n",
  "no keys": "{}\n",
  "more than a mebibyte": `# ${"x".repeat(1024 * 1024)}\nafter: [w]\n`,
};

describe("module.yaml is ignored without a word", () => {
  it.each(Object.entries(NOT_OURS))("with %s", async (_, text) => {
    const on = await directories();
    await on.put("m/5-x/Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\n");
    await on.put("m/5-x/module.yaml", text);
    const found = await module(on);
    expect(found).toMatchObject({ chart: "own", problem: undefined, warnings: [], deprecations: [] });
    expect([found.requires, found.after]).toEqual([undefined, undefined]);
  });

  it("where it is a directory, or beside addon.yaml", async () => {
    const on = await directories();
    await on.put("m/5-x/module.yaml/a.txt");
    expect(await module(on)).toMatchObject({ problem: undefined, warnings: [], deprecations: [] });
    await on.remove("m/5-x/module.yaml");
    await on.put("m/5-x/module.yaml", "name: x\nafter: [z]\n");
    await on.put("m/5-x/addon.yaml", "after: [w]\n");
    expect(await module(on)).toMatchObject({ after: ["w"], warnings: [], deprecations: [] });
  });
});

it("Deckhouse's file and our former one have no key in common", () => {
  const theirs =
    "name weight stage namespace description descriptions subsystems tags requirements disable accessibility exclusiveGroup update critical version".split(
      " ",
    );
  const former = Object.keys(schema.properties).filter((key) => !NEWER_KEYS.includes(key));
  expect(former.filter((key) => theirs.includes(key))).toEqual([]);
});

describe("module.yaml with keys of addon.yaml alone", () => {
  it("still counts, and the warning names the command that renames it", async () => {
    const on = await directories();
    const [old, now] = [on.at("m/5-x/module.yaml"), on.at("m/5-x/addon.yaml")];
    await on.put("m/5-x/module.yaml", "after: [w]\nhelm: {wait: true}\n");
    const reported = `${old}: contains settings that the next version reads from addon.yaml only (git mv ${old} ${now}, or mv ${old} ${now})`;
    const first = await on.read();
    expect(first.modules[0]).toMatchObject({ after: ["w"], helm: { wait: true }, deprecations: [reported] });
    // Renamed as it says: first missed, then confirmed, and never without its settings in between.
    await on.move("m/5-x/module.yaml", "m/5-x/addon.yaml");
    const second = await on.read(first);
    expect(second.modules[0]?.after).toEqual(["w"]);
    await on.clock.advance(60_000);
    const third = await on.read(second);
    expect(third.modules[0]).toMatchObject({ after: ["w"], deprecations: [], warnings: [] });
  });

  it("makes the module Invalid where it is wrong, by its own name", async () => {
    const on = await directories();
    await on.put("m/5-x/module.yaml", "chart: {path: none, value: root}\n");
    const problem = { file: on.at("m/5-x/module.yaml"), key: "chart.value" };
    expect((await module(on)).problem).toMatchObject(problem);
    await on.put("m/5-x/module.yaml", "chart: {path: none}\n");
    expect((await module(on)).problem).toMatchObject({ ...problem, key: "chart.path" });
  });

  it("is ignored beside addon.yaml, and a warning names the keys that differ", async () => {
    const on = await directories();
    await on.put("m/5-x/module.yaml", "after: [w]\nretries: 2\nhelm: {wait: true, timeout: 1m}\n");
    await on.put("m/5-x/addon.yaml", "after: [z]\nhelm: {timeout: 1m, wait: true}\n");
    const old = on.at("m/5-x/module.yaml");
    const first = await on.read();
    expect(first.modules[0]).toMatchObject({
      after: ["z"],
      deprecations: [],
      warnings: [
        `${old}: is ignored beside addon.yaml, which differs in after, retries (move the settings that you need to addon.yaml and remove ${old})`,
      ],
    });
    await on.put("m/5-x/module.yaml", "after: [z]\n");
    expect((await on.read(first)).modules[0]).toMatchObject({ after: ["z"], warnings: [] });
  });
});
