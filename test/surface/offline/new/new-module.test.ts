import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, readdirSync } from "node:fs";
import { rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "tar";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";

import { programFile } from "../../../../scripts/operator.mjs";
import { tools } from "../../../../scripts/setup/tools.mjs";
import { parseYaml } from "../../../../src/base/index.ts";
import { runOffline } from "../../../support/command-line.ts";
import { compileSchemas } from "../../../../src/values/index.ts";
import { chartRepository, putFiles } from "../../../support/chart-repository.ts";

// docs/reference/commands.md, "Without a cluster": `new module`.

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "new-module-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
});

function make(...args: string[]): Promise<{ code: number; text: string }> {
  const env = { PATH: process.env["PATH"], HOME: root, ADDON_OPERATOR_TMP_DIR: join(root, "tmp") };
  const settings = ["--helm-bin", tools().helm, "--modules-dir", join(root, "modules")];
  return runOffline("new", ["module", ...settings, ...args], env);
}

const read = (path: string): string => readFileSync(join(root, "modules", path), "utf8");
const modules = (): string[] =>
  existsSync(join(root, "modules")) ? readdirSync(join(root, "modules")).toSorted() : [];

const CHART = {
  "Chart.yaml": "apiVersion: v2\nname: public-web\nversion: 3.2.1\n",
  "values.yaml": "replicas: 1\nname: web\n",
  "templates/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Values.name }}'}\n",
};
const SCHEMA = {
  $schema: "http://json-schema.org/draft-07/schema#",
  required: ["name"],
  properties: {
    name: { type: "string", default: "other" },
    replicas: { type: "integer", minimum: 0 },
    // Names of values that are keywords of schemas.
    image: {
      properties: { default: { type: "string" }, required: { type: "boolean" } },
      required: ["default"],
    },
    strict: { properties: { a: {} }, additionalProperties: false },
    labels: { type: "object" },
  },
};

describe("new module", () => {
  it("pulls a chart, records its digest, enables it, and prints the next commands", async () => {
    const repo = await chartRepository({ name: "public-web", version: "3.2.1" }, CHART);
    const { code, text } = await make(
      "web-app",
      "--chart",
      "public-web",
      "--repo",
      repo,
      "--version",
      "3.2.1",
    );
    const dir = join(root, "modules");
    const where = `--modules-dir ${dir} --namespace default`;
    expect([code, text.split("\n")]).toEqual([
      0,
      [
        `${dir}/010-web-app: written. Next:`,
        `  addon-operator plan ${where}`,
        `  addon-operator start ${where}`,
        "  kubectl wait --for=create crd/addonmodules.addon-operator.io --timeout=1m",
        "  kubectl wait --for=condition=Established crd/addonmodules.addon-operator.io --timeout=1m",
        "  kubectl wait -n default --for=create addonmodule/web-app --timeout=1m",
        "  kubectl wait -n default addonmodule/web-app --for=condition=Ready --timeout=5m",
        "",
      ],
    ]);
    expect(parseYaml(read("010-web-app/addon.yaml"), "").value).toEqual({
      chart: {
        path: "public-web-3.2.1.tgz",
        values: "root",
        digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        source: { repo, chart: "public-web", version: "3.2.1" },
      },
    });
    expect(read("010-web-app/values.yaml")).toBe("webAppEnabled: true\n");
    expect(readdirSync(join(dir, "010-web-app")).toSorted()).toEqual([
      "addon.yaml",
      "public-web-3.2.1.tgz",
      "values.yaml",
    ]);
  });

  it("copies a directory, without its git directory, and gives the next number", async () => {
    putFiles(join(root, "src"), { ...CHART, ".git/config": "", "templates/.git/x": "" });
    expect((await make("050-first")).code).toBe(0);
    const { code, text } = await make("web-app", "--chart", join(root, "src"));
    expect([code, text]).toEqual([0, expect.stringContaining("060-web-app: written")]);
    expect(parseYaml(read("060-web-app/addon.yaml"), "").value).toMatchObject({ chart: { path: "chart" } });
    expect(readdirSync(join(root, "modules/060-web-app/chart"))).toEqual([
      "Chart.yaml",
      "templates",
      "values.yaml",
    ]);
  });

  it("copies what links lead to, and nothing that .helmignore names", async () => {
    putFiles(join(root, "src"), { ...CHART, ".helmignore": "/docs/\n/shared/\nlost\n", "docs/x": "" });
    putFiles(join(root, "src/common"), {
      "a.yaml": CHART["templates/map.yaml"].replace("metadata", "data: {}\nmetadata"),
    });
    rmSync(join(root, "src/templates/map.yaml"));
    symlinkSync("../common", join(root, "src/templates/shared"));
    symlinkSync("/etc/passwd", join(root, "src/docs/one"));
    symlinkSync("nowhere", join(root, "src/lost"));
    expect((await make("web-app", "--chart", join(root, "src"))).code).toBe(0);
    const chart = join(root, "modules/010-web-app/chart");
    expect(readdirSync(chart)).toEqual([".helmignore", "Chart.yaml", "common", "templates", "values.yaml"]);
    expect(lstatSync(join(chart, "templates/shared")).isDirectory()).toBe(true);
    expect(read("010-web-app/chart/templates/shared/a.yaml")).toContain("data: {}");
  });

  it("leaves files and directories with the rights that new ones have", async () => {
    putFiles(join(root, "src"), CHART);
    chmodSync(join(root, "src/templates"), 0o700);
    chmodSync(join(root, "src/values.yaml"), 0o600);
    expect((await make("web-app", "--chart", join(root, "src"))).code).toBe(0);
    mkdirSync(join(root, "plain"));
    writeFileSync(join(root, "plain/file"), "");
    const modeOf = (path: string): number => lstatSync(path).mode;
    const dir = join(root, "modules/010-web-app");
    const all = ["", ...readdirSync(dir, { recursive: true, encoding: "utf8" })].map((rel) => join(dir, rel));
    expect(all).toHaveLength(8);
    expect(new Set(all.map(modeOf))).toEqual(
      new Set([modeOf(join(root, "plain")), modeOf(join(root, "plain/file"))]),
    );
  });

  const chartOf = (name: string): string => `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`;

  it("says first that sub-charts are missing, and how they are got", async () => {
    const src = join(root, "src");
    const named = ["one", "two"].map((name) => ({ name, version: "1.0.0", repository: `file://../${name}` }));
    const text = `${CHART["Chart.yaml"]}dependencies: ${JSON.stringify(named)}\n`;
    putFiles(src, { ...CHART, "Chart.yaml": text, "charts/1/Chart.yaml": chartOf("one") });
    await expect(make("web-app", "--chart", src)).rejects.toThrow(
      `${src}: has no two in charts/, although it depends on them (run helm dependency build ${src}, then repeat this command)`,
    );
    expect(modules()).toEqual([]);
    putFiles(root, { "one/Chart.yaml": chartOf("one"), "two/Chart.yaml": chartOf("two") });
    rmSync(join(src, "charts"), { recursive: true });
    execFileSync(tools().helm, ["dependency", "build", src], { env: { HOME: root }, stdio: "ignore" });
    expect((await make("web-app", "--chart", src)).code).toBe(0);
  });

  it("says so of an archive, too, with the file of old charts", async () => {
    const text = "dependencies: [{name: one, version: 1.0.0}]\n";
    putFiles(join(root, "web"), { ...CHART, "requirements.yaml": text });
    const file = join(root, "web.tgz");
    create({ gzip: true, sync: true, file, cwd: root }, ["web"]);
    await expect(make("web-app", "--chart", file)).rejects.toThrow(`${file}: has no one in charts/`);
  });

  it("names the archive that is no chart, or holds a broken one", async () => {
    putFiles(join(root, "mac"), { ...CHART, "Chart.yaml": "a: [\n" });
    const file = join(root, "x.tgz");
    const pack = (what: string): void => create({ gzip: true, sync: true, file, cwd: root }, [what]);
    pack("mac");
    await expect(make("web-app", "--chart", file)).rejects.toThrow(
      new RegExp(`^${file}: Chart\\.yaml: line`),
    );
    create({ gzip: true, sync: true, file, cwd: root, prefix: "." }, ["mac"]);
    await expect(make("web-app", "--chart", file)).rejects.toThrow(
      `${file}: contains no Chart.yaml in its one directory: it is no chart (pack the chart with`,
    );
  });

  it.each<[string, (src: string) => void, RegExp]>([
    [
      "a link to nothing",
      (src) => symlinkSync("../../../elsewhere/x.yaml", join(src, "templates/lost.yaml")),
      /src\/templates\/lost\.yaml: is a link to nothing/,
    ],
    [
      "a link out of the chart",
      (src) => {
        putFiles(root, { "private/key": "k" });
        symlinkSync("../../private", join(src, "templates/files"));
      },
      /src\/templates\/files\/key: is a link to a file outside the chart/,
    ],
    [
      "a link in a circle",
      (src) => symlinkSync("..", join(src, "templates/up")),
      /src\/templates\/up: is a link to a directory that it lies in/,
    ],
    [
      "a link to a device",
      (src) => symlinkSync("/dev/zero", join(src, "zero")),
      /src\/zero: is no plain file/,
    ],
    [
      "very many files",
      (src) => putFiles(src, Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`f/${n}`, ""]))),
      /src: contains more than 10000 files, or more than 100 MiB/,
    ],
    [
      "very much",
      (src) => {
        writeFileSync(join(src, "big"), "");
        truncateSync(join(src, "big"), 100 * 1024 * 1024);
      },
      /src: contains more than 100 MiB/,
    ],
  ])("copies no chart with %s", async (_, put, message) => {
    putFiles(join(root, "src"), CHART);
    put(join(root, "src"));
    await expect(make("web-app", "--chart", join(root, "src"))).rejects.toThrow(message);
    expect(modules()).toEqual([]);
  });

  it("makes a schema of the chart's own, which requires and fills in nothing", async () => {
    putFiles(join(root, "src"), { ...CHART, "values.schema.json": JSON.stringify(SCHEMA) });
    expect((await make("web-app", "--chart", join(root, "src"))).code).toBe(0);
    const file = "010-web-app/openapi/config-values.yaml";
    const schemas = compileSchemas({ config: { file, text: read(file) } });
    expect(schemas.fillConfigDefaults({})).toEqual({});
    const broken = (values: object): string[] =>
      schemas.validateConfig(values as never).map(({ path }) => path);
    expect(broken({ more: 1, image: { tag: "x" }, labels: { a: "b" } })).toEqual([]);
    expect(broken({ replicas: -1, image: { default: 1 }, strict: { b: 1 } })).toEqual([
      "/replicas",
      "/image/default",
      "/strict/b",
    ]);
  });

  it.each<[string, number, object]>([
    [
      "a reference elsewhere",
      0,
      { $defs: { n: { $id: "name.json" } }, properties: { name: { $ref: "name.json" } } },
    ],
    // Helm knows it as little.
    ["a pattern of JavaScript", 1, { properties: { name: { pattern: "^(?!x)" } } }],
  ])("leaves a schema with %s to helm, and says so", async (_, wanted, schema) => {
    putFiles(join(root, "src"), { ...CHART, "values.schema.json": JSON.stringify(schema) });
    const { code, text } = await make("web-app", "--chart", join(root, "src"));
    expect([code, text]).toEqual([
      wanted,
      expect.stringContaining("note: the chart's values.schema.json cannot be used"),
    ]);
    expect(existsSync(join(root, "modules/010-web-app/openapi"))).toBe(false);
  });

  it("refuses a schema that is nested too deep, and leaves nothing behind", async () => {
    const levels = 3000;
    const schema = `${'{"properties":{"a":'.repeat(levels)}{}${"}}".repeat(levels)}`;
    putFiles(join(root, "src"), { ...CHART, "values.schema.json": schema });
    await expect(make("web-app", "--chart", join(root, "src"))).rejects.toThrow(
      /^values\.schema\.json: the schema of the chart is nested deeper than 200 levels \(flatten the schema, or [^\n]*\)$/,
    );
    expect(modules()).toEqual([]);
  });

  it("SIGTERM ends helm and leaves nothing behind", async () => {
    const helm = join(root, "helm");
    const called = join(root, "called");
    writeFileSync(helm, `#!/bin/sh\necho $$ > ${called}.new\nmv ${called}.new ${called}\nexec sleep 600\n`);
    chmodSync(helm, 0o755);
    const args = ["new", "module", "web", "--chart", "oci://127.0.0.1:1/web", "--helm-bin", helm];
    const env = { PATH: process.env["PATH"], HOME: root, ADDON_OPERATOR_TMP_DIR: join(root, "tmp") };
    const child = spawn(process.execPath, [programFile(), ...args, "--modules-dir", join(root, "modules")], {
      env,
      stdio: "ignore",
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const ended = once(child, "exit");
    await vi.waitUntil(() => existsSync(called), { timeout: 60_000 });
    expect(modules()).toEqual([expect.stringMatching(/^\.new-/)]);
    child.kill("SIGTERM");
    const [code] = (await ended) as [number | null];
    expect([1, 143]).toContain(code);
    expect(modules()).toEqual([]);
    expect(existsSync(`/proc/${read("../called").trim()}`)).toBe(false);
  }, 90_000);

  it("names the file of a chart's misspelt keyword once", async () => {
    const schema = { properties: { name: { typ: "string" } } };
    putFiles(join(root, "src"), { ...CHART, "values.schema.json": JSON.stringify(schema) });
    const { code, text } = await make("web-app", "--chart", join(root, "src"));
    const file = join(root, "modules/010-web-app/openapi/config-values.yaml");
    expect([code, text.split("\n")[0]]).toEqual([
      0,
      `warning: ${file}: /properties/name: unknown keyword "typ"`,
    ]);
  });

  it("prints findings of lint, such as a missing value", async () => {
    const map = CHART["templates/map.yaml"].replace(".Values.name", 'required "give a name" .Values.no');
    putFiles(join(root, "src"), { ...CHART, "templates/map.yaml": map });
    const { code, text } = await make("web-app", "--chart", join(root, "src"));
    expect([code, text]).toEqual([
      1,
      expect.stringMatching(
        /give a name[^]*010-web-app: written\. Fix the errors above\. Values of the chart belong below webApp: in .*010-web-app\/values\.yaml\. To start over, remove .*010-web-app\. Then:\n/,
      ),
    ]);
  });

  it.each<[string, string[], RegExp]>([
    ["no release name", ["Web"], /Web: invalid name: .*lower case/],
    [
      "the name of a module that is there",
      ["020-there"],
      /a module of this name already exists \(choose another name, or remove .*modules\/010-there first\)/,
    ],
    ["a directory that is no chart", ["x", "--chart", "."], /contains no Chart.yaml: it is no chart/],
    ["a version of what lies here", ["x", "--chart", ".", "--version", "1"], /has only one version/],
    [
      "what helm cannot pull",
      ["x", "--chart", "no/such"],
      /no\/such: is not a local file, and helm cannot pull it: .*no/,
    ],
    ["a file that is no archive", ["x", "--chart", "package.json"], /package.json: cannot be unpacked: /],
  ])("refuses %s, and leaves nothing behind", async (_, args, message) => {
    putFiles(join(root, "modules"), { "010-there/values.yaml": "" });
    await expect(make(...args)).rejects.toThrow(message);
    expect(modules()).toEqual(["010-there"]);
  });

  it("leaves no empty modules directory behind, nor one above it", async () => {
    const dir = join(root, "a/b");
    await expect(make("x", "--chart", "no/such", "--modules-dir", dir)).rejects.toThrow(/cannot pull it/);
    expect(existsSync(join(root, "a"))).toBe(false);
    expect(await make("x", "--modules-dir", dir)).toMatchObject({ code: 0 });
    expect(readdirSync(dir)).toEqual(["010-x"]);
  });

  it.each(["/proc/x", "/proc/x/y"])("ends for the modules directory %s", async (dir) => {
    await expect(make("x", "--modules-dir", dir)).rejects.toThrow("/proc/x");
  });

  it("says why the modules directory cannot be created", async () => {
    putFiles(root, { modules: "a file" });
    await expect(make("x")).rejects.toThrow(/modules: cannot be created: .*\(set --modules-dir to another/);
  });

  it.each([["x", "y"], [], ["x", "--version", "1"], ["x", "--repo", "http://r"]])(
    "asks for its usage: %s %s %s",
    async (...args) => {
      await expect((async () => make(...args))()).rejects.toThrow(/usage: addon-operator new module|name it/);
    },
  );
});
