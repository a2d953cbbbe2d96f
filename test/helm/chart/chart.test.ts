import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, readdir, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";

import { afterEach, beforeEach, describe, expect, test } from "vitest";

import type { GroupVersion, KubeClient } from "../../../src/kube/index.ts";
import type { Module } from "../../../src/base/model/index.ts";
import { ScratchDir } from "../../../src/base/process/index.ts";
import { addReachOfValues, ChartReader, computeInputsDigest } from "../../../src/helm/chart/chart.ts";
import { cacheCapabilities } from "../../../src/helm/chart/capabilities.ts";
import { ChartArchives } from "../../../src/modules/index.ts";
import { listChartInputs, openChart } from "../../../src/modules/chart/find-chart.ts";
import { parseHelmIgnore } from "../../../src/modules/chart/chart-files.ts";
import { ChartChangedError, copyChart } from "../../../src/helm/rendering.ts";
import { ManualClock } from "../../support/clock.ts";

describe(".helmignore as helm reads it", () => {
  type Case = [rule: string, path: string, isDirectory: boolean, ignored: boolean];
  test.each<Case>([
    ["*.md", "README.md", false, true],
    ["*.md", "docs/a.md", false, true],
    ["/*.md", "docs/a.md", false, false],
    ["docs/*.md", "docs/a.md", false, true],
    ["docs/*.md", "x/docs/a.md", false, false],
    ["docs/", "docs", true, true],
    ["docs/", "docs", false, false],
    ["a?c", "abc", false, true],
    ["[ab].txt", "b.txt", false, true],
    ["[^ab].txt", "b.txt", false, false],
    // A range of Go may be empty, and neither escapes nor names of regular expressions have a meaning.
    ["[@-0]x", "@x", false, false],
    ["[b-az]x", "zx", false, true],
    ["[^@-0]x", "@x", false, true],
    [String.raw`[\d]`, "d", false, true],
    [String.raw`[\d]`, "5", false, false],
    [String.raw`[\]]x`, "]x", false, true],
    ["[[:alpha:]]", "p]", false, true],
    ["[[:alpha:]]", "p", false, false],
    ["[a-c&&b]", "a", false, true],
    ["[\u{1F600}-\u{1F610}]", "\u{1F601}", false, true],
    [String.raw`\*.x`, "*.x", false, true],
    [String.raw`\*.x`, "a.x", false, false],
    ["# comment", "# comment", false, false],
    ["", "templates/.hidden", false, true],
    ["", ".hidden", false, false],
    ["!keep.txt", "other.txt", false, true],
    ["!keep.txt", "keep.txt", false, false],
    ["a.b", "axb", false, false],
    // The white space of Go, not of JavaScript: a byte order mark counts at the beginning of the file only.
    ["\u0085a.b\u0085", "a.b", false, true],
    ["\uFEFFa.b", "a.b", false, true],
    ["x\n\uFEFFa.b", "a.b", false, false],
  ])("rule %j, path %s (directory: %s): %s", (...[rule, path, isDirectory, ignored]: Case) => {
    expect(parseHelmIgnore(rule)(path, isDirectory)).toBe(ignored);
  });

  test.each(["[]a]", "[a", "[a-]", "[-a]", "[", "[^]", "[a\\"])(
    "the bad pattern %s matches nothing",
    (rule) => {
      for (const path of ["a", "]", "-", rule]) expect(parseHelmIgnore(rule)(path, false)).toBe(false);
      expect(parseHelmIgnore(`!x*${rule}`)("a", false)).toBe(true);
    },
  );
});

let root: string;
let scratches: string;
const clock = new ManualClock(Date.now() + 86_400_000);
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "chart-test-"));
  scratches = await mkdtemp(join(tmpdir(), "chart-test-"));
  await put("Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\n");
  await put("templates/a.yaml", "{{ .Values.global.used.deep }}{{ .Values.m.a }}");
});
afterEach(async () => {
  for (const dir of [root, scratches]) await rm(dir, { recursive: true, force: true });
});

async function put(rel: string, text: string | Buffer): Promise<void> {
  await mkdir(dirname(join(root, rel)), { recursive: true });
  await writeFile(join(root, rel), text);
}

describe("a link in a chart", () => {
  const read = () => new ChartReader(clock).read({ name: "m", chartDir: root, chart: "own" });

  test("that leads to nothing is refused, as helm refuses it, unless .helmignore leaves it out", async () => {
    await symlink("nowhere", join(root, "templates/lost.yaml"));
    await expect(read()).rejects.toThrow(`${root}/templates/lost.yaml: is a link to nothing`);
    await put(".helmignore", "templates/lost.yaml\n");
    await expect(read()).resolves.toBeDefined();
  });

  test("that leads to a directory is followed, not in a circle", async () => {
    const before = (await read()).digest;
    await mkdir(join(root, "charts"));
    await symlink("../templates", join(root, "charts/linked"));
    expect((await read()).digest).not.toBe(before);
    await symlink("..", join(root, "templates/up"));
    await expect(read()).rejects.toThrow(/\/up: is a link to a directory that it lies in/);
  });

  test("to itself is refused", async () => {
    await symlink("self", join(root, "templates/self"));
    await expect(read()).rejects.toThrow("templates/self: cannot be read: ELOOP");
  });

  test("is followed so often, and no more", async () => {
    for (let n = 0; n < 20; n += 1) {
      await mkdir(join(root, `d${n}`));
      for (const name of ["a", "b"]) await symlink(`../d${n + 1}`, join(root, `d${n}/${name}`));
    }
    await put("d20/x", "");
    await expect(read()).rejects.toThrow("contains more than 30000 files and directories");
    await put(".helmignore", "d0\n");
    await expect(read()).rejects.toThrow("contains more than 30000 files and directories");
    await put(".helmignore", "d[0-9]*\n");
    await expect(read()).resolves.toBeDefined();
  });

  test("that helm does not load counts towards no limit", async () => {
    await put(".helmignore", "*.bin\n/data/\n");
    const [large, many] = [join(root, "large.bin"), join(root, "many")];
    await put("large.bin", "");
    await truncate(large, 101 * 1024 * 1024);
    await mkdir(join(root, "data"));
    for (let n = 0; n < 20; n += 1) await symlink("..", join(root, `data/${n}`));
    // 16 paths to a directory of 2,000 files.
    await mkdir(many);
    for (let n = 0; n < 2000; n += 1) await symlink("../Chart.yaml", join(many, `${n}.bin`));
    for (let n = 0; n < 15; n += 1) await symlink("many", join(root, `many-${n}`));
    await expect(read()).resolves.toBeDefined();
    expect(listChartInputs(dirname(root), { path: basename(root), digest: "sha256:0" }).size).toBe(3);
    await put(".helmignore", "*.bin\n");
    await expect(read()).rejects.toThrow("data/0: is a link to a directory that it lies in");
  });

  test("to more bytes than a chart can hold is refused before anything is read", async () => {
    await put("large", "");
    await truncate(join(root, "large"), 101 * 1024 * 1024);
    await expect(read()).rejects.toThrow(
      `${root}: contains more than 100 MiB (remove what leads to them from the chart, or name it in .helmignore)`,
    );
  });
});

test("a chart of many files is read and copied in slices, between which the event loop goes on", async () => {
  for (let n = 0; n < 1000; n += 1) await put(`templates/${n}.yaml`, "{{ .Values.m.a }}");
  let turns = 0;
  const count = (): void => {
    turns += 1;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  const module = { name: "m", chartDir: root, chart: "own" } as const;
  const chart = await new ChartReader(clock).read(module);
  const readTurns = turns;
  await copyChart({ module, chart }, await ScratchDir.open(scratches, "slices"));
  clearImmediate(next);
  // To list, to read, and to write the files takes 10 slices each.
  expect(readTurns).toBeGreaterThanOrEqual(19);
  expect(turns - readTurns).toBeGreaterThanOrEqual(28);
});

test("a module's chart in another place is read anew", async () => {
  await put("next/Chart.yaml", "apiVersion: v2\nname: x\nversion: 2.0.0\n");
  const reader = new ChartReader(clock);
  const read = (chartDir: string) => reader.read({ name: "m", chartDir, chart: "own" });
  const [before, after] = [await read(root), await read(join(root, "next"))];
  expect(after.digest).not.toBe(before.digest);
  expect(await read(join(root, "next"))).toBe(after);
  expect(await read(root)).not.toBe(before);
});

test("a chart that is missing is a state that a converge ends", async () => {
  const read = () => new ChartReader(clock).read({ name: "m", chartDir: join(root, "old"), chart: "root" });
  await expect(read()).rejects.toThrow(
    `${root}/old: the chart in force is missing: the files of its module have changed since they were read (converge with kubectl annotate`,
  );
});

test("the digest of the server's APIs changes only with those that count", async () => {
  const served = (...kinds: string[]) => ({
    group: "apps",
    version: "v1",
    resources: kinds.map((kind) => ({ kind })),
  });
  const digests = async (version: string, versions: object[]): Promise<string[]> => {
    const { capabilities } = cacheCapabilities({
      client: { json: async () => ({ gitVersion: version }) } as unknown as KubeClient,
      discovery: { readVersions: async () => versions as GroupVersion[] },
      clock,
    });
    const names = [["apps/v1/Deployment", "v1"], ["apps/v1/Foo"]];
    return [
      await capabilities.digest(),
      ...(await Promise.all(names.map((each) => capabilities.digest(new Set(each))))),
    ];
  };
  const core = { group: "", version: "v1", resources: [] };
  const changed = async (version: string, versions: object[]): Promise<boolean[]> => {
    const [before, after] = await Promise.all([
      digests("v1.36.0", [core, served("Deployment")]),
      digests(version, versions),
    ]);
    return after.map((each, index) => each !== before[index]);
  };
  expect(await changed("v1.36.0", [served("Deployment"), core])).toEqual([false, false, false]);
  expect(await changed("v1.36.0", [core, served("Deployment", "Other")])).toEqual([true, false, false]);
  expect(await changed("v1.36.0", [core, served("Deployment", "Foo")])).toEqual([true, false, true]);
  expect(await changed("v1.36.0", [served("Deployment")])).toEqual([true, true, false]);
  expect(await changed("v1.37.0", [core, served("Deployment")])).toEqual([true, true, true]);
});

describe("the inputs digest", () => {
  const reader = new ChartReader(clock);
  async function digest(change: Partial<Parameters<typeof computeInputsDigest>[0]> = {}): Promise<string> {
    const values = { global: { used: { deep: 1 }, other: 1 }, m: { a: 1 } };
    return computeInputsDigest({
      module: { name: "m", valuesKey: "m" },
      namespace: "ns",
      chart: await reader.read({ name: "m", chartDir: root, chart: "own" }),
      values,
      helm: "helm",
      capabilities: async () => "server",
      ...change,
    });
  }

  test.each<[string, Partial<Parameters<typeof computeInputsDigest>[0]>]>([
    ["module values", { values: { global: { used: { deep: 1 }, other: 1 }, m: { a: 2 } } }],
    ["a global it names", { values: { global: { used: { deep: 2 }, other: 1 }, m: { a: 1 } } }],
    ["the release name", { module: { name: "n", valuesKey: "m" } }],
    ["the namespace", { namespace: "other" }],
    ["the helm binary", { helm: "other" }],
  ])("covers %s", async (_, change) => {
    expect(await digest(change)).not.toBe(await digest());
  });

  test.each<[string, Partial<Parameters<typeof computeInputsDigest>[0]>]>([
    ["other globals", { values: { global: { used: { deep: 1 }, other: 2 }, m: { a: 1 } } }],
    ["the order of keys", { values: { m: { a: 1 }, global: { other: 1, used: { deep: 1 } } } }],
    ["the server, unless asked", { capabilities: async () => "other" }],
  ])("leaves out %s", async (_, change) => {
    expect(await digest(change)).toBe(await digest());
  });

  test("covers all globals and the server where templates use them", async () => {
    await put("templates/b.yaml", "{{ toYaml .Values.global }}{{ .Capabilities.KubeVersion }}");
    const values = { global: { used: { deep: 1 }, other: 2 }, m: { a: 1 } };
    expect(await digest({ values })).not.toBe(await digest());
    expect(await digest({ capabilities: async () => "other" })).not.toBe(await digest());
  });

  test("of the APIs of the server, covers those that the templates ask for", async () => {
    await put("templates/b.yaml", `{{ .Capabilities.APIVersions.Has "apps/v1" }}{{ tpl .Values.x . }}`);
    const asked: (readonly string[] | undefined)[] = [];
    const capabilities = async (apis?: ReadonlySet<string>): Promise<string> => {
      asked.push(apis && [...apis]);
      return "server";
    };
    await digest({ capabilities });
    const chart = await reader.read({ name: "m", chartDir: root, chart: "own" });
    expect(addReachOfValues(chart, `{"x": "{{ .Capabilities }}"}`).reach.apis).toBeUndefined();
    await put("files/x.txt", "{{ .Capabilities.APIVersions }}");
    await digest({ capabilities });
    expect(asked).toEqual([["apps/v1"], undefined]);
  });

  // Labels of releases and addon.yaml contain these digests: other ones would upgrade each release, and refuse each chart.
  test("and that of a chart never change", async () => {
    const names =
      "a/x a.b a-b/c B/d ä/e \u{1F600} \uFF5E .hidden a/.deep/f crds/c.yaml hooks/h lib/l charts/s/lib/l";
    for (const path of names.split(" ")) await put(path, `content of ${path}`);
    for (const path of ["empty", "ignored/x", "templates/.ignored", "templates/.kept/g"]) await put(path, "");
    await put(".helmignore", "/ignored/\n");
    await symlink("../a", join(root, "B/linked"));
    await symlink("a.b", join(root, "link"));
    const own = await reader.read({ name: "m", chartDir: root, chart: "own" });
    const synthetic = await reader.read({ name: "n", chartDir: root, chart: "synthetic" });
    const opened = await openChart(root, new ChartArchives(scratches));
    expect([own.digest, synthetic.digest, await digest({ chart: own }), opened.digest()]).toEqual([
      "a51838f50721d0982050306f8398524076571ce351d5b9ca106013ac6cca5bef",
      "2d2196392565d00f065d2cf626cbc02d3e3929973fd19c7fe26f502f59b2960e",
      "v1-5c2d23eff35bdb16c6a52f7082d19a87e34c8ade",
      "sha256:a51838f50721d0982050306f8398524076571ce351d5b9ca106013ac6cca5bef",
    ]);
  });

  test("covers every file that helm loads", async () => {
    const before = await digest();
    await put("files/x.txt", "1");
    const added = await digest();
    await put("files/x.txt", "2");
    const changed = await digest();
    await put(".helmignore", "files/\n");
    const ignored = await digest();
    await put("files/x.txt", "3");
    expect(new Set([before, added, changed, ignored]).size).toBe(4);
    expect(await digest()).toBe(ignored);
  });
});

describe("what else reads values", () => {
  const read = async () =>
    (await new ChartReader(clock).read({ name: "m", chartDir: root, chart: "own" })).reach;
  test("conditions of sub-charts", async () => {
    await put("Chart.yaml", "name: x\ndependencies:\n- name: y\n  condition: y.on,global.y.on\n");
    expect([...(await read()).globals]).toContain("y.on");
  });
  const spellings: Record<string, string> = {
    "in flow style": "dependencies: [{name: y, condition: global.y.on}]",
    "with a quoted key": `dependencies:\n- name: y\n  "condition": 'y.on, global.y.on'`,
    "with a blank before the colon": "dependencies:\n- name: y\n  condition : global.y.on",
    folded: "dependencies:\n- name: y\n  condition: >-\n    global.y.on",
    "with an anchor": "dependencies:\n- &d\n  condition: &c global.y.on\n  name: y\n- {<<: *d, alias: z}",
    escaped: String.raw`dependencies: [{name: y, condition: "\x67lobal.y.on"}]`,
    "as JSON": `dependencies: [\n{"condition":"y.on,global.y.on","name":"y"}]`,
    "as import-values": "dependencies: [{name: y, import-values: [{child: global.y.on, parent: a}]}]",
  };
  test.each(Object.entries(spellings))("conditions of sub-charts, %s", async (_, text) => {
    await put("Chart.yaml", `name: x\n${text}\n`);
    expect([...(await read()).globals]).toContain("y.on");
    await put("Chart.yaml", "name: x\n");
    await put("charts/sub/requirements.yaml", `${text}\n`);
    expect([...(await read()).globals]).toContain("y.on");
  });
  test("conditions in packed sub-charts, and schemas in them", async () => {
    await put("pack/z/Chart.yaml", "name: z\ndependencies: [{name: y, condition: global.y-1.on}]\n");
    const pack = (): Buffer =>
      execFileSync("tar", ["-czf", join(root, "charts/z-1.0.0.tgz"), "-C", join(root, "pack"), "z"]);
    await mkdir(join(root, "charts"));
    pack();
    expect([...(await read()).globals].sort()).toEqual(["used.deep", "y-1.on"]);
    expect((await read()).dynamic).toBe(false);
    await put("pack/z/values.schema.json", `{"properties": {"global": {}}}`);
    pack();
    expect((await read()).dynamic).toBe(true);
  });
  test("a Chart.yaml that cannot be read reaches all globals", async () => {
    await put("Chart.yaml", "name: [x\n");
    expect((await read()).dynamic).toBe(true);
  });
  test("a schema that speaks of globals", async () => {
    await put("values.schema.json", `{"properties": {"global": {}}}`);
    expect((await read()).dynamic).toBe(true);
  });
  test("templates of sub-charts, packed ones too", async () => {
    await put("charts/y/templates/_h.tpl", "{{ .Values.global.fromSub }}");
    await put("pack/z/templates/a.yaml", "{{ .Values.global.fromPacked }}");
    execFileSync("tar", ["-czf", join(root, "charts/z-1.0.0.tgz"), "-C", join(root, "pack"), "z"]);
    await rm(join(root, "pack"), { recursive: true });
    expect([...(await read()).globals].sort()).toEqual(["fromPacked", "fromSub", "used.deep"]);
  });
  test("with tpl any file", async () => {
    await put("templates/b.yaml", "{{ tpl (.Files.Get `x`) . }}");
    expect(await read()).toMatchObject({ dynamic: true, lookup: false });
    await put("x", "{{ lookup `v1` `Secret` `a` `b` }}");
    expect(await read()).toMatchObject({ lookup: true, random: false });
    await put("x", "lookup {{ genCA `a` 1 }}");
    expect(await read()).toMatchObject({ lookup: false, random: true });
  });
});

test.each<[string, boolean]>([
  ["name: x\nversion: 1.0.0\n", false],
  ["version: 1.0.0\n", true],
  ["name: ''\n", true],
  ["name: a/b\n", true],
  ["name: [1]\n", true],
])("Chart.yaml %j needs a stage: %s", async (text, needed) => {
  await put("Chart.yaml", text);
  const { needsChartYaml } = await new ChartReader(clock).read({ name: "m", chartDir: root, chart: "own" });
  expect(needsChartYaml).toBe(needed);
});

async function staged(
  chart: Module["chart"],
  meanwhile: () => Promise<void> = async () => {},
  crds?: readonly string[],
): Promise<string> {
  const crdFiles = crds?.map((rel) => join(root, rel));
  const module = { name: "m", chartDir: root, chart, ...(crdFiles && { crdFiles }) };
  const read = await new ChartReader(clock).read(module);
  await meanwhile();
  return copyChart({ module, chart: read }, await ScratchDir.open(scratches, "stage"));
}

test("a made chart has the module's name and leaves out what is none of helm's", async () => {
  await rm(join(root, "Chart.yaml"));
  for (const dir of ["hooks", "lib", "crds", "docs", "images"]) await put(`${dir}/x`, "");
  await symlink(join(root, "templates"), join(root, "linked"));
  const dir = await staged("synthetic");
  expect((await readdir(dir)).sort()).toEqual(["Chart.yaml", "linked", "templates"]);
  expect(await readFile(join(dir, "Chart.yaml"), "utf8")).toContain("name: m");
});

test("helm gets a copy of what was decided on, and nothing of what was written since", async () => {
  const file = join("templates", "a.yaml");
  await put(file, "first");
  const dir = await staged("own");
  await put(file, "second");
  expect(await readFile(join(dir, file), "utf8")).toBe("first");
  expect(await readFile(join(dir, "Chart.yaml"))).toEqual(await readFile(join(root, "Chart.yaml")));
  await expect(staged("own", () => put(file, "third"))).rejects.toThrow(ChartChangedError);
  await expect(staged("own", () => put("templates/b.yaml", ""))).rejects.toThrow(ChartChangedError);
  await expect(staged("own", () => rm(root, { recursive: true }))).rejects.toThrow(ChartChangedError);
});

test("files in crds/ that --crd-filters names are left out: helm would take them for CRDs", async () => {
  for (const path of ["crds/a.yaml", "crds/doc-ru-a.yaml", "crds/deep/_notes.yml", "charts/s/crds/_b.yaml"])
    await put(path, "");
  const dir = await staged("own", undefined, ["crds/a.yaml"]);
  const files = await readdir(dir, { recursive: true });
  expect(files.filter((path) => /\.ya?ml$/.test(path) && path.includes("crds/")).sort()).toEqual([
    "charts/s/crds/_b.yaml",
    "crds/a.yaml",
  ]);
});
