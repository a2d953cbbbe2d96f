import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

import { describeProblem } from "../../../src/base/model/index.ts";
import type { Tree } from "../../../src/base/model/index.ts";
import { collectProblems } from "../../../src/modules/index.ts";
import { directories } from "../module-directories.ts";
import type { Directories } from "../module-directories.ts";

/** What is reported of one entry of the modules directory, with `DIR` for the place of the modules. */
function reported(texts: readonly string[], on: Directories): string[] {
  return texts.map((text) => text.replaceAll(on.at("m"), "DIR"));
}

const hookNames = (tree: Tree): string[] =>
  tree.modules.flatMap(({ hookFiles }) => hookFiles.map(({ name }) => name));

describe("which files of a module count", () => {
  it("runs hooks in the order of their paths, wherever they lie", async () => {
    const on = await directories();
    for (const hook of ["c", "a/z", "b/y", "a.sh", "a/b/x", "B"])
      await on.put(`m/x/hooks/${hook}`, "", 0o755);
    expect(hookNames(await on.read())).toEqual(
      ["B", "a.sh", "a/b/x", "a/z", "b/y", "c"].map((rel) => `hooks/${rel}`),
    );
  });

  it("follows links among hooks, but not in circles, nor to nothing", async () => {
    const on = await directories();
    await on.put("m/x/hooks/sub/a.sh", "", 0o755);
    await on.put("elsewhere/b.sh", "", 0o755);
    await on.link("m/x/hooks/sub/up", "..");
    await on.link("m/x/hooks/other", on.at("elsewhere"));
    await on.link("m/x/hooks/lost", on.at("nowhere"));
    expect(hookNames(await on.read())).toEqual(["hooks/other/b.sh", "hooks/sub/a.sh"]);
  });

  it("takes CRDs from files with the ending of YAML, in the order of their names", async () => {
    const on = await directories();
    for (const name of ["c.yml", "b.yaml", "a.yaml", ".d.yaml", "e.yaml.orig", "f.txt"])
      await on.put(`m/x/crds/${name}`);
    await on.put("m/y/crds", "a file");
    const [x, y] = (await on.read()).modules;
    expect(x?.crdFiles).toEqual(["a.yaml", "b.yaml", "c.yml"].map((name) => on.at(`m/x/crds/${name}`)));
    expect(y?.crdFiles).toEqual([]);
  });

  it("takes CRDs at any depth, but no files whose names begin with a prefix of --crd-filters", async () => {
    const on = await directories();
    const names = [
      "a.yaml",
      "doc-a.yaml",
      "_b.yaml",
      "sub/deep/c.yaml",
      "sub/doc-ru-c.yaml",
      "x_d.yaml",
      ".g/e.yaml",
    ];
    for (const name of names) await on.put(`m/x/crds/${name}`);
    await on.link("m/x/crds/doc-lost.yaml", "nowhere");
    const files = async (crdFilters: string): Promise<unknown> => {
      const [module] = (await on.read(undefined, { crdFilters })).modules;
      return module?.crdFiles.map((file) => file.replace(on.at("m/x/crds/"), ""));
    };
    expect(await files("doc-,_")).toEqual(["a.yaml", "sub/deep/c.yaml", "x_d.yaml"]);
    expect(await files("a, x_")).toEqual(["_b.yaml", "doc-a.yaml", "sub/deep/c.yaml", "sub/doc-ru-c.yaml"]);
    expect((await on.read()).modules[0]?.problem).toBeUndefined();
    await on.put("m/x/.helmignore", "crds/*\n");
    expect(await files("doc-,_")).toEqual(["a.yaml", "sub/deep/c.yaml", "x_d.yaml"]);
  });

  it("takes no CRDs that .helmignore names, unless it names them all", async () => {
    const on = await directories();
    for (const name of ["kustomization.yaml", "a.yaml"]) await on.put(`m/x/crds/${name}`);
    const files = async (): Promise<unknown> => (await on.read()).modules[0]?.crdFiles;
    await on.put("m/x/.helmignore", "crds/kustomization.yaml\n");
    expect(await files()).toEqual([on.at("m/x/crds/a.yaml")]);
    for (const rule of ["/crds/", "crds/*"]) {
      await on.put("m/x/.helmignore", `${rule}\n`);
      expect(await files()).toHaveLength(2);
    }
  });

  it("reports entries of crds/ and hooks/ that are no files, in a module without a chart", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    await on.link("m/x/crds/a.yaml", "/dev/null");
    await on.link("m/x/hooks/a.sh", "nowhere");
    await on.link("m/x/hooks/b.sh", "/dev/null");
    await on.link("m/x/hooks/b.txt", "/dev/null");
    const [module] = (await on.read()).modules;
    expect(module?.problem).toMatchObject({
      file: on.at("m/x/crds/a.yaml"),
      message: "is no plain file, but a device",
    });
    expect(module?.notExecutableWarnings).toEqual([
      `${on.at("m/x/hooks/a.sh")}: is a link to nothing (remove or fix it)`,
      `${on.at("m/x/hooks/b.sh")}: is no plain file, but a device (remove it)`,
    ]);
  });

  it("reports a CRD that is a link to nothing, until it leads somewhere", async () => {
    const on = await directories();
    await on.put("m/x/crds/a.yaml");
    await on.link("m/x/crds/b.yaml", "../later.yaml");
    const broken = await on.read();
    expect(broken.modules[0]?.problem).toMatchObject({
      file: on.at("m/x/crds/b.yaml"),
      message: "is a link to nothing",
    });
    await on.put("m/x/later.yaml");
    expect((await on.read(broken)).modules[0]?.problem).toBeUndefined();
  });

  it.each([
    ["values.yaml", "plain file"],
    ["Chart.yaml", "plain file"],
    ["requirements.yaml", "plain file"],
    ["enabled", "plain file"],
    ["openapi/values.yaml", "plain file"],
    ["openapi/config-values.yaml", "plain file"],
    ["hooks", "directory"],
    ["openapi", "directory"],
    ["crds", "directory"],
    ["templates", "directory"],
  ])("names %s that is no %s, for it does not count as missing", async (rel, right) => {
    const on = await directories();
    const path = `m/x/${rel}`;
    const problem = async (): Promise<unknown> => (await on.read()).modules[0]?.problem;
    const file = on.at(path);
    const remedy = `remove it, or replace it by a ${right}`;
    if (right === "directory") await on.put(path);
    else await on.put(`${path}/file`);
    const kind = right === "directory" ? "a file" : "a directory";
    expect(await problem()).toEqual({ file, message: `is no ${right}, but ${kind}`, remedy });
    await on.remove(path);
    execFileSync("mkfifo", [file]);
    expect(await problem()).toEqual({ file, message: `is no ${right}, but a pipe`, remedy });
    await on.remove(path);
    await on.link(path, "nowhere");
    expect(await problem()).toEqual({ file, message: "is a link to nothing", remedy });
  });

  it.each(["hooks", "openapi"])("reports a file %s of the global hooks", async (rel) => {
    const on = await directories();
    await on.put("m/x/values.yaml", "x: {}\n");
    await on.put(`global/${rel}`);
    const { problems } = await on.read();
    expect(problems).toMatchObject([
      { file: on.at(`global/${rel}`), message: "is no directory, but a file" },
    ]);
  });

  it("forgets the problem of a directory values.yaml when it is gone, without a change of any file", async () => {
    const on = await directories();
    await on.put("m/x/values.yaml/file");
    await on.put("m/x/hooks/h.sh", "", 0o755);
    const broken = await on.read();
    expect(broken.modules[0]).toMatchObject({ problem: { file: on.at("m/x/values.yaml") } });
    expect(broken.modules[0]?.own.isUnreadable).toBe(true);
    await on.remove("m/x/values.yaml");
    expect((await on.read(broken)).modules[0]).toMatchObject({ problem: undefined });
  });

  it("takes a directory values.yaml beside the modules for no module", async () => {
    const on = await directories();
    await on.put("m/x/values.yaml", "x: {}\n");
    await on.put("m/values.yaml/values.yaml");
    const { modules, problems } = await on.read();
    expect(modules.map(({ name }) => name)).toEqual(["x"]);
    expect(problems).toMatchObject([{ file: on.at("m/values.yaml") }]);
  });

  it("refuses too many files in hooks/ and crds/, and reads the other modules", async () => {
    const on = await directories();
    mkdirSync(on.at("large"));
    for (let n = 0; n <= 30_000; n += 1) writeFileSync(on.at(`large/${n}`), "");
    await on.link("m/1-x/hooks", "../../large");
    await on.link("m/2-y/crds", "../../large");
    await on.put("m/3-z/values.yaml", "z: {}\n");
    const { modules } = await on.read();
    const refused = (part: string): unknown => ({
      file: on.at(`m/${part}`),
      message: "contains more than 30000 files and directories",
      remedy: "remove the link that leads to them",
    });
    expect(modules.map(({ problem }) => problem)).toEqual([
      refused("1-x/hooks"),
      refused("2-y/crds"),
      undefined,
    ]);
  });

  it("reads both schemas of modules and of global hooks", async () => {
    const on = await directories();
    for (const place of ["m/x", "global"]) {
      await on.put(`${place}/openapi/config-values.yaml`, "type: object\n");
      await on.put(`${place}/openapi/values.yaml`, "type: array\n");
    }
    await on.put("m/y/openapi/config-values.yaml", "type: string\n");
    const { modules, globalSchemas } = await on.read();
    const both = { config: { text: "type: object\n" }, values: { text: "type: array\n" } };
    expect(modules[0]?.schemas).toMatchObject(both);
    expect(globalSchemas).toMatchObject(both);
    expect(globalSchemas.config?.file).toBe(on.at("global/openapi/config-values.yaml"));
    expect(Object.keys(modules[1]?.schemas ?? {})).toEqual(["config"]);
  });

  it.each([
    ["a directory of templates", "templates/a.yaml", "synthetic"],
    ["a file of that name", "templates", "none"],
    ["neither", "README.md", "none"],
  ])("makes a chart of %s", async (_, file, chart) => {
    const on = await directories();
    await on.put(`m/x/${file}`);
    expect((await on.read()).modules[0]?.chart).toBe(chart);
  });

  it.each([
    ["version: 1.2.3\n", "1.2.3"],
    ["version: 7\n", "7"],
    ["version: [1]\n", undefined],
    ["name: x\n", undefined],
  ])("reads the version of a chart: %j", async (text, version) => {
    const on = await directories();
    await on.put("m/x/Chart.yaml", text);
    const [module] = (await on.read()).modules;
    expect([module?.chartVersion, module?.problem]).toEqual([version, undefined]);
  });

  it("says where a module's values come from", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    await on.put("m/y/README.md");
    expect((await on.read()).modules[0]?.common.file).toBe("values.yaml");
    await on.put("m/values.yaml", "x: {a: 1}\n");
    const [x, y] = (await on.read()).modules;
    expect([x?.common.file, x?.own.file]).toEqual([on.at("m/values.yaml"), on.at("m/x/values.yaml")]);
    expect(y?.common).toMatchObject({ file: on.at("m/values.yaml"), section: undefined, enabled: undefined });
  });

  it("names the file that says something of a module, where the first says nothing", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    await on.put("m/values.yaml", "y: {}\n");
    await on.put("n/values.yaml", "x: {a: 1}\n");
    await on.put("n/z/README.md");
    const [x] = (await on.read(undefined, { dirs: ["m", "n"] })).modules;
    expect(x?.common).toMatchObject({ file: on.at("n/values.yaml"), section: { a: 1 } });
  });

  it("takes the lower number of two directories for one module", async () => {
    const on = await directories();
    await on.put("m/10-x/README.md");
    await on.put("m/2-x/README.md");
    const tree = await on.read();
    expect(tree.modules).toMatchObject([{ name: "x", order: 2 }]);
    expect(reported(tree.warnings, on)).toEqual(['DIR/10-x: left out, module "x" is DIR/2-x']);
  });

  it("takes names of exactly 53 characters", async () => {
    const on = await directories();
    await on.put(`m/${"x".repeat(53)}/README.md`);
    expect((await on.read()).modules).toHaveLength(1);
  });
});

const LOOP = expect.stringMatching(/^DIR\/notes\.txt: cannot be read: ELOOP/) as string;

describe("what is reported of files that cannot count", () => {
  it.each<readonly [string, (on: Directories) => Promise<void>, string]>([
    [
      "a stray file",
      (on) => on.put("m/notes.sh"),
      "DIR/notes.sh: is neither a module directory nor values.yaml",
    ],
    [
      "a link to nothing without a module's name",
      (on) => on.link("m/B", "x-"),
      "DIR/B: is a link to nothing (remove or fix it)",
    ],
    ["a file that cannot be looked at", (on) => on.link("m/notes.txt", "notes.txt"), LOOP],
    [
      "the name of globals",
      (on) => on.put("m/global/a"),
      'DIR/global: no module: "global" is the section of values that all modules share (rename the directory)',
    ],
    [
      "the key of a setting",
      (on) => on.put("m/global-values-from/a"),
      'DIR/global-values-from: no module: "global-values-from" has the values key "globalValuesFrom", which is a setting of the ConfigMap (rename the directory)',
    ],
    [
      "no release name",
      (on) => on.put("m/A/a"),
      'DIR/A: no module: "A" is no release name: lower case letters, digits and dashes, beginning and ending with a letter or digit (rename the directory)',
    ],
    [
      "a long name",
      (on) => on.put(`m/${"y".repeat(54)}/a`),
      `DIR/${"y".repeat(54)}: no module: "${"y".repeat(54)}" is longer than helm's 53 characters for a release name (rename the directory)`,
    ],
    [
      "a name that its key does not give back",
      (on) => on.put("m/y-1/a"),
      'DIR/y-1: no module: "y-1" has the same values key as "y1": "y1" (rename the directory)',
    ],
    [
      "the name of another's flag",
      (on) => on.put("m/x-enabled/a"),
      'DIR/x-enabled: no module: its values key xEnabled is a flag of module "x" (rename one of the two directories)',
    ],
  ])("%s", async (what, make, warning) => {
    const on = await directories();
    await on.put("m/x/README.md");
    await make(on);
    const tree = await on.read();
    expect(tree.modules.map(({ name }) => name)).toEqual(["x"]);
    expect(reported(tree.warnings, on)).toEqual([warning]);
    // What may be a module with a wrong name must not be purged; a stray file is none.
    expect(reported(tree.purgeBlockers, on)).toEqual(what === "a stray file" ? [] : [warning]);
  });

  it("says nothing of files that people leave lying about", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    for (const name of ["LICENSE", "OWNERS", "NOTES.md", "NOTES.txt", ".hidden", ".git/config"])
      await on.put(`m/${name}`);
    await on.put("m/lost+found/a");
    const { warnings, purgeBlockers, modules } = await on.read();
    expect([warnings, purgeBlockers, modules.length]).toEqual([[], [], 1]);
  });

  it.each([
    ["leads to nothing", "nowhere", /is a link to nothing \(remove or fix it\)$/],
    ["cannot be looked at", "1-web", /cannot be read: ELOOP.*\(check that it exists and its rights\)$/],
  ])("keeps a module whose entry %s, as one with a problem", async (_, target, problem) => {
    const on = await directories();
    await on.put("m/2-x/README.md");
    await on.put("m/values.yaml", "web: {a: 1}\n");
    await on.link("m/1-web", target);
    const { modules, warnings, purgeBlockers } = await on.read();
    expect(modules.map(({ name }) => name)).toEqual(["web", "x"]);
    const [web, x] = modules.map((module) => module.problem && describeProblem(module.problem));
    expect([web, x]).toEqual([expect.stringMatching(problem), undefined]);
    expect(web?.startsWith(`${on.at("m/1-web")}: `)).toBe(true);
    expect([modules[0]?.order, modules[0]?.common.section, warnings, purgeBlockers]).toEqual([
      1,
      { a: 1 },
      [],
      [],
    ]);
  });

  it("reports doubts about the values of the directory", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    await on.put("m/values.yaml", "x: false\nxEnabled: true\n");
    expect(reported((await on.read()).warnings, on)).toEqual([
      "DIR/values.yaml: x is false, but xEnabled is true; the flag counts",
    ]);
  });

  it("reports global hooks that are no files", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    await on.put("global/hooks/a.sh", "", 0o755);
    await on.link("global/hooks/b.sh", "nowhere");
    await on.link("global/hooks/c.sh", "/dev/null");
    const { globalHookFiles, notExecutableWarnings } = await on.read();
    expect(globalHookFiles.map(({ name }) => name)).toEqual(["hooks/a.sh"]);
    expect(notExecutableWarnings).toEqual([
      `${on.at("global/hooks/b.sh")}: is a link to nothing (remove or fix it)`,
      `${on.at("global/hooks/c.sh")}: is no plain file, but a device (remove it)`,
    ]);
  });

  it("reports that there are no global hooks", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    await on.remove("global");
    expect((await on.read()).warnings).toEqual([
      `${on.at("global")}: there is no such directory, so there are no global hooks`,
    ]);
  });

  it.each([
    ["a: b: c\n", /^DIR\/x\/Chart.yaml: line 1, column \d+: not valid YAML: /],
    ["[1]\n", /^DIR\/x\/Chart.yaml: must be a map \(write `key: value` pairs\)$/],
  ])("a Chart.yaml that is %j", async (text, problem) => {
    const on = await directories();
    await on.put("m/x/Chart.yaml", text);
    const [module] = (await on.read()).modules;
    expect(reported(module?.problem === undefined ? [] : [describeProblem(module.problem)], on)[0]).toMatch(
      problem,
    );
  });

  it.each(["Chart.yaml", "addon.yaml", "values.yaml", "openapi/config-values.yaml", "openapi/values.yaml"])(
    "a %s that is not UTF-8",
    async (name) => {
      const on = await directories();
      await on.put("m/x/Chart.yaml", "name: x\nversion: 1.0.0\n");
      await on.put(`m/x/${name}`, "");
      writeFileSync(on.at(`m/x/${name}`), Buffer.from("a: 1\nb: caf\u0097\n", "latin1"));
      const [module] = (await on.read()).modules;
      expect(reported(module?.problem === undefined ? [] : [describeProblem(module.problem)], on)).toEqual([
        `DIR/x/${name}: line 2: is no UTF-8 text (save the file as UTF-8)`,
      ]);
    },
  );

  it("reports what is missing where every values.yaml is asked for", async () => {
    const on = await directories();
    await on.put("m/x/README.md");
    const { problems, modules } = await on.read(undefined, { strict: true });
    const all = [...problems, ...modules.flatMap(({ problem }) => problem ?? [])];
    expect(reported(all.map(describeProblem), on)).toEqual(
      ["values.yaml", "x/values.yaml"].map(
        (rel) => `DIR/${rel}: is missing (add it, or start without --strict-check-values-mode-enabled)`,
      ),
    );
  });

  it("a module whose files cannot be listed requires action and says nothing else", async () => {
    const on = await directories();
    await on.put("m/5-x/values.yaml", "x: {a: 1}\n");
    await on.link("m/5-x/enabled", "enabled");
    const { modules, problems } = await on.read(undefined, { strict: true });
    expect(modules).toMatchObject([
      { name: "x", order: 5, chart: "none", hookFiles: [], own: { section: undefined }, warnings: [] },
    ]);
    expect(modules[0]?.problem).toMatchObject({
      file: on.at("m/5-x"),
      message: expect.stringMatching(/^cannot be read: ELOOP/),
      remedy: "check that it exists and its rights",
    });
    expect(problems.map(({ file }) => file)).toEqual([on.at("m/values.yaml")]);
  });
});

describe("lint of a modules directory", () => {
  it("reports each thing once, by file", async () => {
    const on = await directories();
    await on.put("m/x/values.yaml", "x: {}\ny: a: b\n");
    await on.put("m/x/hooks/a.sh");
    await on.put("m/Foo/README.md");
    await on.put("m/good/README.md");
    await on.link("m/2-y", "nowhere");
    await on.put("m/notes.sh");
    const found = reported(collectProblems(await on.read(), on.at("m")).map(describeProblem), on);
    expect(found).toEqual([
      expect.stringMatching(/^DIR\/Foo: no module: /),
      expect.stringMatching(/^DIR\/x\/values.yaml: line 2, column \d+: not valid YAML/),
      "DIR/2-y: is a link to nothing (remove or fix it)",
      "DIR/notes.sh: is neither a module directory nor values.yaml",
    ]);
  });
});
