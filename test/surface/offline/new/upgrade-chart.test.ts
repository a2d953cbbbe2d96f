// Runs at night: few changes touch the command upgrade-chart.
import { execFile, execFileSync } from "node:child_process";
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";

import { tools } from "../../../../scripts/setup/tools.mjs";
import { parseYaml } from "../../../../src/base/index.ts";
import { run, runOffline } from "../../../support/command-line.ts";
import { isOlderVersion } from "../../../../src/base/index.ts";
import { putFiles, repositoryOf } from "../../../support/chart-repository.ts";

// docs/reference/commands.md, "Without a cluster": `upgrade-chart`.

let root: string;
let repo: string;
let displayed: string[];

const chart = (version: string, files: Readonly<Record<string, string>>): Record<string, string> => ({
  "Chart.yaml": `apiVersion: v2\nname: public-web\nversion: ${version}\n`,
  "templates/map.yaml":
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata: {size: '{{ .Values.size }}'}\n",
  ...files,
});
const crd = (column: string): string =>
  `apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: webs.example.org}\nspec: {x: ${column}}\n`;
const schema = (most: number): string => JSON.stringify({ properties: { size: { maximum: most } } });

const OLD = chart("3.9.0", {
  "values.yaml": "size: 1\nold: {key: true, other: 1}\n",
  "crds/webs.yaml": crd("a"),
  "values.schema.json": schema(5),
});
const NEW = chart("3.10.0", {
  "values.yaml": "size: 2\nadded: [1]\n",
  "crds/webs.yaml": crd("b"),
  "values.schema.json": schema(9),
});

let repository: Awaited<ReturnType<typeof repositoryOf>>;
let made: string;

beforeAll(async () => {
  repository = await repositoryOf([
    { name: "public-web", version: "3.10.0", files: NEW },
    { name: "public-web", version: "3.9.0", files: OLD },
    {
      name: "public-web",
      version: "4.0.0-bad",
      files: chart("4.0.0-bad", { "templates/x.yaml": "{{ nonsense }}" }),
    },
  ]);
  repo = repository.url;
  made = mkdtempSync(join(tmpdir(), "upgrade-chart-"));
  root = made;
  await make("web", "--chart", "public-web", "--repo", repo, "--version", "3.9.0");
  writeFileSync(at("values.yaml"), "webEnabled: true\nweb: {old: {key: false}}\n");
});
afterAll(async () => {
  await repository.close();
  rmSync(made, { recursive: true });
});

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "upgrade-chart-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  cpSync(join(made, "modules"), join(root, "modules"), { recursive: true });
  displayed = [];
});

const at = (path = ""): string => join(root, "modules/010-web", path);
const read = (path: string): string => readFileSync(at(path), "utf8");
const files = (): string[] => readdirSync(at()).toSorted();
const place = (): unknown => parseYaml(read("addon.yaml"), "").value;

const make = (...args: string[]) => runOffline("new", ["module", ...args, ...settings()], env());
const upgradeOf = (...args: string[]) =>
  run(["upgrade-chart", ...args, ...settings()], {
    env: env(),
    confirm: (text) => {
      displayed.push(text);
      return Promise.resolve(false);
    },
  });
const upgrade = (...args: string[]) => upgradeOf("web", ...args);
const settings = (): string[] => ["--helm-bin", tools().helm, "--modules-dir", join(root, "modules")];
const env = () => ({ PATH: process.env["PATH"], HOME: root, ADDON_OPERATOR_TMP_DIR: join(root, "tmp") });

/** Everything below the module, to see that nothing moved. */
const whole = (): string =>
  execFileSync("sh", ["-c", "find . -type f | sort | xargs sha256sum"], { cwd: at(), encoding: "utf8" });

describe("new module", () => {
  it("writes down where the chart came from", () => {
    expect(place()).toMatchObject({ chart: { source: { repo, chart: "public-web", version: "3.9.0" } } });
  });

  it("writes the URL of a repository that only this user calls so, without a password", async () => {
    const source = (name: string): unknown =>
      parseYaml(readFileSync(join(root, "modules", name, "addon.yaml"), "utf8"), "").value;
    await promisify(execFile)(tools().helm, ["repo", "add", "mine", repo], { env: env() });
    await make("one", "--chart", "mine/public-web", "--version", "3.9.0");
    const url = repo.replace("http://", "http://me:word@");
    await promisify(execFile)(tools().helm, ["repo", "add", "his", url], { env: env() });
    await make("two", "--chart", "his/public-web", "--version", "3.9.0");
    for (const name of ["020-one", "030-two"])
      expect(source(name)).toMatchObject({
        chart: { source: { repo, chart: "public-web", version: "3.9.0" } },
      });
  });
});

describe("upgrade-chart", () => {
  it.each([
    ["version", "1.0.0/../../050-evil"],
    ["version", "1..0"],
    ["name", "../050-evil"],
  ])("refuses a chart whose %s leads elsewhere: %s", async (key, text) => {
    const chartYaml = { name: "public-web", version: "9.0.0", [key]: text };
    putFiles(join(root, "evil"), {
      ...NEW,
      "Chart.yaml": JSON.stringify({ apiVersion: "v2", ...chartYaml }),
    });
    const before = whole();
    await expect(upgrade("--chart", join(root, "evil"))).rejects.toThrow(
      `/Chart.yaml: ${key}: ${JSON.stringify(text)} is not a valid ${key} of a chart`,
    );
    expect(whole()).toBe(before);
    expect(readdirSync(join(root, "modules"))).toEqual(["010-web"]);
  });

  it("shows what changes in values, objects and CRDs, and changes nothing where nobody agrees", async () => {
    const before = whole();
    expect(await upgrade("--version", "3.10.0")).toEqual({ code: 1, text: "Nothing was changed.\n" });
    expect(displayed.join("")).toBe(`web: public-web 3.9.0 → 3.10.0

Values of the chart:
  + added: [1]
  - old.key: true, which this module sets
  - old.other: 1
  ~ size: 1 → 2

Objects:
  ~ v1 ConfigMap web

# v1 ConfigMap web
 apiVersion: v1
 data:
-  size: '1'
+  size: '2'
 kind: ConfigMap
 metadata:
   name: web

CRDs:
  ~ apiextensions.k8s.io/v1 CustomResourceDefinition webs.example.org

`);
    expect(whole()).toBe(before);
  });

  it("leaves the chart's test hooks out of what changes", async () => {
    const hook = "apiVersion: v1\nkind: Pod\nmetadata: {name: try, annotations: {helm.sh/hook: test}}\n";
    putFiles(join(root, "one"), { ...OLD, "values.yaml": "size: 1\n", "templates/tests/try.yaml": hook });
    await upgrade("--chart", join(root, "one"));
    expect(displayed.join("")).toContain("Objects:\n  no change\n");
  });

  it("shows of a large object only what changes, and of CRDs among the templates only the names", async () => {
    const lines = Array.from({ length: 5000 }, (_, line) => `  k${line}: '{{ .Values.size }}'`).join("\n");
    const large = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large}\ndata:\n${lines}\n`;
    const templates = (map: string, column: string): Record<string, string> => ({
      ...NEW,
      "templates/large.yaml": map,
      "templates/crd.yaml": crd(column).replace("webs.", "others."),
    });
    putFiles(join(root, "one"), templates(large, "a"));
    putFiles(join(root, "two"), templates(large.replace(/k2500: .*/, "k2500: other"), "b"));
    await upgrade("--yes", "--chart", join(root, "one"));
    await upgrade("--chart", join(root, "two"));
    expect(displayed.join("").replace(/^[^]*?Objects:/, "Objects:")).toBe(`Objects:
  ~ v1 ConfigMap large

# v1 ConfigMap large
 …
   k2499: '2'
   k25: '2'
   k250: '2'
-  k2500: '2'
+  k2500: other
   k2501: '2'
   k2502: '2'
   k2503: '2'
 …

CRDs:
  ~ apiextensions.k8s.io/v1 CustomResourceDefinition others.example.org

`);
  });

  it("takes the newest with --yes: chart, digest, source and schema, and keeps comments", async () => {
    writeFileSync(at("addon.yaml"), `# ours\n${read("addon.yaml")}`);
    const { code, text } = await upgrade("--yes");
    expect([code, text]).toEqual([
      0,
      expect.stringMatching(
        /3\.9\.0 → 3\.10\.0[^]*has public-web 3\.10\.0\. Next:\n {2}addon-operator plan --modules-dir .*\n.*converge:\n {2}kubectl annotate --overwrite addonoperator\/addon-operator --namespace default reconcile.*\n$/,
      ),
    ]);
    expect(files()).toEqual(["addon.yaml", "openapi", "public-web-3.10.0.tgz", "values.yaml"]);
    expect(read("addon.yaml")).toMatch(/^# ours\n/);
    expect(place()).toEqual({
      chart: {
        path: "public-web-3.10.0.tgz",
        values: "root",
        digest: expect.stringMatching(/^sha256:/),
        source: { repo, chart: "public-web", version: "3.10.0" },
      },
    });
    expect(read("openapi/config-values.yaml")).toContain("maximum: 9");
    expect(await upgrade("--yes")).toEqual({
      code: 1,
      text: `${at()}: public-web 3.10.0 is installed already\n`.replace("web/:", "web:"),
    });
  });

  it("reports a downgrade, the same version with other content, and render errors", async () => {
    await upgrade("--yes");
    await upgrade("--version", "3.9.0");
    await upgrade("--version", "4.0.0-bad");
    putFiles(join(root, "same"), { ...NEW, "values.yaml": "size: 3\n" });
    await upgrade("--chart", join(root, "same"));
    expect(displayed.map((text) => text.split("\n")[0])).toEqual([
      "web: public-web 3.10.0 → 3.9.0 (a downgrade: charts are seldom tested that way)",
      "web: public-web 3.10.0 → 4.0.0-bad",
      "web: public-web 3.10.0 → 3.10.0 (the same version with other content)",
    ]);
    expect(displayed[1]).toMatch(
      /cannot be compared: the new chart is not rendered: .*"nonsense" not defined/,
    );
  });

  it("counts what a file in place of the ConfigMap says", async () => {
    const values = join(root, "values.yaml");
    writeFileSync(values, "web: {size: 4}\n");
    await upgrade("--values", values);
    expect(displayed.join("")).toContain("Objects:\n  no change\n");
  });

  it("leaves a schema alone that was edited, and an old chart whose digest nobody wrote down", async () => {
    appendFileSync(at("openapi/config-values.yaml"), "# edited\n");
    writeFileSync(at("addon.yaml"), read("addon.yaml").replace(/^ *digest:.*\n/m, ""));
    const { text } = await upgrade("--yes");
    expect(text).toContain("config-values.yaml was edited: compare it");
    expect(text).toContain("the old chart stays in");
    expect(read("openapi/config-values.yaml")).toContain("# edited");
    expect(files()).toContain("public-web-3.9.0.tgz");
  });

  it("leaves everything as it was where it fails halfway", async () => {
    // The new chart exists already when the schema cannot be written.
    mkdirSync(at("openapi/config-values.yaml.new"));
    const before = whole();
    await expect(upgrade("--yes")).rejects.toThrow("EISDIR");
    expect(whole()).toBe(before);
    expect(files()).toEqual(["addon.yaml", "openapi", "public-web-3.9.0.tgz", "values.yaml"]);
  });

  it.each<[string, () => string[] | void, RegExp]>([
    [
      "a chart that is not the one that was got",
      () => writeFileSync(at("public-web-3.9.0.tgz"), "edited"),
      /cannot be unpacked|digest/,
    ],
    ["a version that is not there", () => ["--version", "9.9.9"], /9\.9\.9/],
    [
      "an addon.yaml that names no source",
      () => writeFileSync(at("addon.yaml"), "chart: {path: public-web-3.9.0.tgz}\n"),
      /chart\.source: does not contain the source of the chart/,
    ],
    ["a module whose chart is its own", () => rmSync(at("addon.yaml")), /has no addon.yaml with a chart/],
    [
      "an addon.yaml that is broken",
      () =>
        writeFileSync(
          at("addon.yaml"),
          "chart: {path: x, source: {chart: x, repo: 'http://a:b@c', version: '1'}}\n",
        ),
      /chart\.source\.repo/,
    ],
    [
      "a chart of another name",
      () => {
        putFiles(join(root, "other"), {
          ...NEW,
          "Chart.yaml": "apiVersion: v2\nname: other\nversion: 9.0.0\n",
        });
        return ["--chart", join(root, "other")];
      },
      /the fetched chart is other, and not another version of public-web/,
    ],
  ])("refuses %s", async (_, make, message) => {
    const args = make() ?? [];
    const before = whole();
    await expect(upgrade("--yes", ...args)).rejects.toThrow(message);
    expect(whole()).toBe(before);
  });

  it("upgrades a directory, and finds a free name for it", async () => {
    putFiles(join(root, "next"), NEW);
    rmSync(at(), { recursive: true });
    mkdirSync(at());
    putFiles(at(), { "addon.yaml": "chart: {path: chart}\n" });
    putFiles(at("chart"), OLD);
    expect((await upgrade("--yes", "--chart", join(root, "next"))).code).toBe(0);
    expect(place()).toMatchObject({ chart: { path: "chart-3.10.0" } });
    expect(files()).toEqual(["addon.yaml", "chart", "chart-3.10.0"]);
  });

  it("renames a module.yaml that still holds the settings", async () => {
    putFiles(join(root, "next"), NEW);
    rmSync(at(), { recursive: true });
    mkdirSync(at());
    putFiles(at(), { "module.yaml": "# ours\nchart: {path: chart}\n" });
    putFiles(at("chart"), OLD);
    expect((await upgrade("--yes", "--chart", join(root, "next"))).code).toBe(0);
    expect(place()).toMatchObject({ chart: { path: "chart-3.10.0" } });
    expect(files()).toEqual(["addon.yaml", "chart", "chart-3.10.0"]);
  });

  it.each([[], ["a", "b"]])("asks for its usage: %s %s", async (...args) => {
    await expect((async () => upgradeOf(...args))()).rejects.toThrow(/usage: addon-operator upgrade-chart/);
  });
});

it.each([
  ["1.9.0", "1.10.0", true],
  ["1.10.0", "1.9.0", false],
  ["v1.2.3", "1.2.3", false],
  ["1.0.0-rc.2", "1.0.0", true],
  ["1.0.0", "1.0.0-rc.2", false],
  ["1.0.0-rc.2", "1.0.0-rc.10", true],
  ["1.0.0+a", "1.0.0+b", false],
  ["next", "1.0.0", false],
])("version %s is older than %s: %s", (version, other, older) => {
  expect(isOlderVersion(version, other)).toBe(older);
});
