import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";
import { create, Header } from "tar";
import { describe, expect, it } from "vitest";

import { describeProblem } from "../../../src/base/model/index.ts";
import type { JsonObject, Module } from "../../../src/base/model/index.ts";
import { findAddonProblem } from "../../../src/modules/chart/addon-file.ts";
import { random } from "../../support/random.ts";
import { diceOf, violateAddon } from "../../support/violate.ts";
import { directories } from "../module-directories.ts";
import type { Directories } from "../module-directories.ts";

// docs/reference/addon-yaml.md.

const CHART = "apiVersion: v2\nname: public-chart\nversion: 3.2.1\n";

async function module(on: Directories): Promise<Module> {
  const { modules } = await on.read();
  return modules[0] as Module;
}

/** A chart below the module, as a directory or as `helm package` makes it. */
async function chart(on: Directories, place: string): Promise<void> {
  await on.put(`${place}/Chart.yaml`, CHART);
  await on.put(`${place}/templates/x.yaml`, "a: b\n");
  await on.put(`${place}/crds/a.yaml`, "a: 1\n");
  await on.put(`${place}/crds/deep/b.yml`, "b: 1\n");
  await on.put(`${place}/crds/README.md`, "#\n");
  await on.put(`${place}/charts/sub/Chart.yaml`, "apiVersion: v2\nname: sub\nversion: 1.0.0\n");
  await on.put(`${place}/charts/sub/crds/c.json`, "{}\n");
}

function pack(on: Directories, file: string, names: readonly string[]): void {
  mkdirSync(on.at("m/5-x"), { recursive: true });
  create({ gzip: true, sync: true, file: on.at(file), cwd: on.at("src"), portable: true }, [...names]);
}

describe("a chart in a place of its own", () => {
  it("is found as a directory, with its version and all CRDs", async () => {
    const on = await directories();
    await on.put("m/5-x/addon.yaml", "chart: {path: vendor/public}\n");
    await on.put("m/5-x/crds/own.yaml", "");
    await chart(on, "m/5-x/vendor/public");
    const at = (rel: string): string => on.at(`m/5-x/${rel}`);
    expect(await module(on)).toMatchObject({
      name: "x",
      chart: "root",
      chartDir: at("vendor/public"),
      chartVersion: "3.2.1",
      problem: undefined,
      warnings: [],
      crdFiles: [
        at("crds/own.yaml"),
        ...["charts/sub/crds/c.json", "crds/a.yaml", "crds/deep/b.yml"].map((rel) =>
          at(`vendor/public/${rel}`),
        ),
      ],
    });
  });

  it("has the CRDs that helm loads: none that .helmignore names, those behind links", async () => {
    const on = await directories();
    await on.put("m/5-x/addon.yaml", "chart: {path: chart}\n");
    await chart(on, "m/5-x/chart");
    await on.put("m/5-x/chart/.helmignore", "crds/kustomization.yaml\ncharts/off/\n");
    for (const rel of ["crds/kustomization.yaml", "charts/off/crds/d.yaml", "charts/_not/crds/e.yaml"])
      await on.put(`m/5-x/chart/${rel}`, "a: 1\n");
    await on.put("m/5-x/more/f.yaml", "a: 1\n");
    await on.link("m/5-x/chart/crds/linked", "../../more");
    const rels = (await module(on)).crdFiles.map((file) => file.replace(on.at("m/5-x/chart/"), ""));
    expect(rels).toEqual(["charts/sub/crds/c.json", "crds/a.yaml", "crds/deep/b.yml", "crds/linked/f.yaml"]);
  });

  it("is refused while a link in its crds/ leads to nothing, or in a circle", async () => {
    const on = await directories();
    await on.put("m/5-x/addon.yaml", "chart: {path: chart}\n");
    await chart(on, "m/5-x/chart");
    await on.link("m/5-x/chart/crds/lost.yaml", "../nowhere.yaml");
    const { problem } = await module(on);
    expect(problem).toMatchObject({
      file: on.at("m/5-x/chart/crds/lost.yaml"),
      message: "is a link to nothing",
    });
    await on.put("m/5-x/chart/nowhere.yaml", "a: 1\n");
    expect((await module(on)).problem).toBeUndefined();
    await on.link("m/5-x/chart/crds/deep/up", "..");
    expect((await module(on)).problem).toMatchObject({
      file: on.at("m/5-x/chart/crds/deep/up"),
      message: "is a link to a directory that it lies in",
    });
  });

  it("may read its values under the module's key", async () => {
    const on = await directories();
    await on.put("m/5-x/addon.yaml", "chart: {path: vendor, values: section}\n");
    await chart(on, "m/5-x/vendor");
    expect(await module(on)).toMatchObject({ chart: "own", chartDir: on.at("m/5-x/vendor") });
  });

  it("is unpacked where it is an archive: private, once for each content, and again when that is gone", async () => {
    const on = await directories();
    await on.put("m/5-x/addon.yaml", "chart: {path: public.tgz}\n");
    await chart(on, "src/public");
    pack(on, "m/5-x/public.tgz", ["public"]);
    const first = await on.read();
    const found = first.modules[0] as Module;
    expect(found).toMatchObject({ chart: "root", chartVersion: "3.2.1", problem: undefined });
    expect(found.chartDir.startsWith(on.at("tmp/charts."))).toBe(true);
    expect(found.crdFiles).toHaveLength(3);
    expect(found.crdFiles.every((file) => existsSync(file))).toBe(true);

    rmSync(found.chartDir, { recursive: true });
    const second = await on.read(first);
    expect(second.modules[0]?.chartDir).toBe(found.chartDir);
    expect(existsSync(`${found.chartDir}/Chart.yaml`)).toBe(true);

    // What the last read used stays for one more: something may still be at work with it.
    await on.put("src/public/Chart.yaml", CHART.replace("3.2.1", "4.0.0"));
    pack(on, "m/5-x/public.tgz", ["public"]);
    const third = await on.read(second);
    expect(third.modules[0]?.chartVersion).toBe("4.0.0");
    expect(existsSync(found.chartDir)).toBe(true);
    const fourth = await on.read(third);
    expect([existsSync(found.chartDir), existsSync(fourth.modules[0]?.chartDir ?? "")]).toEqual([
      false,
      true,
    ]);
    await on.archives.close();
    expect(existsSync(fourth.modules[0]?.chartDir ?? "")).toBe(false);
  });

  it("is unpacked again before a run where a cleaner took one file of it, or the whole temp directory", async () => {
    const on = await directories();
    await on.put("m/5-x/addon.yaml", "chart: {path: public.tgz}\n");
    await chart(on, "src/public");
    pack(on, "m/5-x/public.tgz", ["public"]);
    const { modules } = await on.read();
    const { chartDir = "", crdFiles = [] } = modules[0] ?? {};
    for (const missing of [crdFiles[0] ?? "", on.at("tmp")]) {
      rmSync(missing, { recursive: true });
      await on.archives.restore(chartDir);
      expect([chartDir, ...crdFiles].filter((each) => !existsSync(each))).toEqual([]);
    }
    await on.archives.restore(on.at("src/public"));
    await on.archives.close();
  });

  it.each(["directory", "archive"])(
    "another digest of a %s is refused, and its own is reported",
    async (form) => {
      const on = await directories();
      const path = form === "archive" ? "public.tgz" : "public";
      const say = (hex: string): Promise<void> =>
        on.put("m/5-x/addon.yaml", `chart: {path: ${path}, digest: "sha256:${hex}"}\n`);
      await chart(on, form === "archive" ? "src/public" : "m/5-x/public");
      if (form === "archive") pack(on, "m/5-x/public.tgz", ["public"]);
      await say("0".repeat(64));
      const { problem } = await module(on);
      expect(problem).toMatchObject({ file: on.at("m/5-x/addon.yaml"), key: "chart.digest" });
      const [, digest = ""] = /which is sha256:([0-9a-f]{64})$/.exec(problem?.message ?? "") ?? [];
      await say(digest);
      expect((await module(on)).problem).toBeUndefined();
      if (form === "archive") return;
      await on.put("m/5-x/public/templates/x.yaml", "a: c\n");
      expect((await module(on)).problem?.key).toBe("chart.digest");
    },
  );

  it("a digest covers what linked directories hold, and a circle does no harm to it", async () => {
    const on = await directories();
    const say = (hex: string): Promise<void> =>
      on.put("m/5-x/addon.yaml", `chart: {path: public, digest: "sha256:${hex}"}\n`);
    await chart(on, "m/5-x/public");
    await on.put("m/5-x/public/.helmignore", "circle\n");
    await on.put("m/5-x/shared/more.yaml", "a: b\n");
    symlinkSync("../../shared", on.at("m/5-x/public/templates/linked"));
    symlinkSync("..", on.at("m/5-x/public/templates/circle"));
    await say("0".repeat(64));
    const reported = (await module(on)).problem?.message ?? "";
    await say(/which is sha256:([0-9a-f]{64})$/.exec(reported)?.[1] ?? reported);
    expect((await module(on)).problem).toBeUndefined();
    await on.put("m/5-x/shared/more.yaml", "a: c\n");
    expect((await module(on)).problem?.key).toBe("chart.digest");
  });

  it("a chart beside addon.yaml is not used, and a warning says so", async () => {
    const on = await directories();
    await on.put("m/5-x/addon.yaml", "chart: {path: vendor}\n");
    await on.put("m/5-x/Chart.yaml", CHART);
    await chart(on, "m/5-x/vendor");
    expect((await module(on)).warnings).toEqual([
      `${on.at("m/5-x/Chart.yaml")}: is not used: addon.yaml names a chart (remove it, or \`chart\` from addon.yaml)`,
    ]);
  });

  it("that is broken at a converge leaves the last good one in force", async () => {
    const on = await directories();
    await on.put("m/5-x/addon.yaml", "chart: {path: vendor}\n");
    await chart(on, "m/5-x/vendor");
    const first = await on.read();
    await on.put("m/5-x/addon.yaml", "chart: {path: vendor, digest: none}\n");
    const second = await on.read(first);
    expect(second.modules[0]).toMatchObject({ chart: "root", chartDir: on.at("m/5-x/vendor") });
    expect(second.modules[0]?.problem?.key).toBe("chart.digest");
  });
});

describe("addon.yaml says", () => {
  it("what the module requires, and what it comes after", async () => {
    const on = await directories();
    await on.put("m/5-x/addon.yaml", 'requires: {modules: {db: ">=1.4 <2", z: "*"}}\nafter: [w]\n');
    await on.put("m/5-x/Chart.yaml", CHART);
    expect(await module(on)).toMatchObject({
      chart: "own",
      requires: { modules: { db: ">=1.4 <2", z: "*" } },
      after: ["w"],
      problem: undefined,
    });
  });

  it("how helm works for it", async () => {
    const on = await directories();
    await on.put("m/5-x/addon.yaml", "helm: {timeout: 1m30s, wait: true}\n");
    await on.put("m/5-x/Chart.yaml", CHART);
    const helm = { timeout: "1m30s", wait: true };
    expect(await module(on)).toMatchObject({ chart: "own", helm, problem: undefined });
  });
});

describe("addon.yaml is refused with", () => {
  const known = "remove or correct it; known here:";
  it.each([
    [
      "an unknown key",
      "charts: {path: chart}\n",
      `charts: is no key of addon.yaml (${known} chart, requires, helm, health, drift, onFailure, retries, valuesFrom, namespace, serviceAccountName, after)`,
    ],
    [
      "an unknown key below",
      "chart: {path: chart, value: root}\n",
      `chart.value: is no key of addon.yaml (${known} path, values, digest, source)`,
    ],
    ["no path", "chart: {}\n", "chart.path: is required"],
    [
      "an unknown place for values",
      "chart: {path: a, values: top}\n",
      'chart.values: must be one of "root", "section"',
    ],
    ["a digest of another form", "chart: {path: a, digest: md5:1}\n", "chart.digest: must match pattern"],
    [
      "what is no range",
      "requires: {modules: {db: newest}}\n",
      'requires.modules.db: "newest" is no range of versions (write one as npm has them',
    ],
    [
      "what is no range of Kubernetes' versions",
      "requires: {kubernetes: stable}\n",
      'requires.kubernetes: "stable" is no range of versions (write one as npm has them',
    ],
    ["a range that is a number", "requires: {modules: {db: 1}}\n", "requires.modules.db: must be string"],
    [
      "an unknown key of requires",
      "requires: {module: {db: 1}}\n",
      `requires.module: is no key of addon.yaml (${known} modules, kubernetes, objects)`,
    ],
    [
      "an unknown key of an object",
      "requires: {objects: [{apiVersion: v1, kind: Secret, name: a, cell: x}]}\n",
      `requires.objects.0.cell: is no key of addon.yaml (${known} apiVersion, kind, namespace, name, condition, cel)`,
    ],
    [
      "an object without a kind",
      "requires: {objects: [{apiVersion: v1, name: a}]}\n",
      "requires.objects.0.kind: is required",
    ],
    [
      "a name that is a selector",
      'requires: {objects: [{apiVersion: v1, kind: Secret, name: "a,metadata.name=b"}]}\n',
      "requires.objects.0.name: must match pattern",
    ],
    [
      "an expression that is none",
      'requires: {objects: [{apiVersion: v1, kind: Secret, name: a, cel: "object.data ==="}]}\n',
      "requires.objects.0.cel: Unexpected",
    ],
    [
      "an expression over something else",
      'requires: {objects: [{apiVersion: v1, kind: Secret, name: a, cel: "secret.data == 1"}]}\n',
      "requires.objects.0.cel: Unknown variable: secret",
    ],
    [
      "an expression that is no condition",
      'requires: {objects: [{apiVersion: v1, kind: Secret, name: a, cel: "size(object.data)"}]}\n',
      "requires.objects.0.cel: is no condition: it gives a int",
    ],
    [
      "an unknown key of helm",
      "helm: {waits: true}\n",
      `helm.waits: is no key of addon.yaml (${known} timeout, wait, takeOwnership, apply)`,
    ],
    ["a time-out that is a number", "helm: {timeout: 300}\n", "helm.timeout: must be string"],
    [
      "a time-out that is no duration",
      'helm: {timeout: "5"}\n',
      'helm.timeout: "5" is no duration of up to 24h (write one such as 90s or 5m)',
    ],
    ["no time at all", "helm: {timeout: 0s}\n", 'helm.timeout: "0s" is no duration'],
    ["a time-out without an end", "helm: {timeout: 24h1s}\n", 'helm.timeout: "24h1s" is no duration'],
    [
      "a time-out of health that is no duration",
      "health: {timeout: soon}\n",
      'health.timeout: "soon" is no duration',
    ],
    [
      "a check that is none",
      "health: {checks: [{apiVersion: v1, kind: Pod, cel: '==='}]}\n",
      "health.checks.0.cel: Unexpected",
    ],
    [
      "what is ignored without a kind",
      "health: {ignore: [{name: web}]}\n",
      "health.ignore.0.kind: is required",
    ],
    ["modules that are no list", "after: y\n", "after: must be array"],
    ["what is no map", "- chart\n", "must be a map"],
    ["what is no YAML", "chart: {\n", "line 2, column 1: not valid YAML"],
    [
      "more levels than any file may have",
      `chart: ${"[".repeat(300)}${"]".repeat(300)}\n`,
      "nested deeper than 200",
    ],
    ["more than a mebibyte", `# ${"x".repeat(1024 * 1024)}\n`, "is larger than 1 MiB"],
    ["a path to nothing", "chart: {path: none}\n", "chart.path: names nothing below the module's directory"],
    ["a path out of the module", "chart: {path: ../chart}\n", "chart.path: names nothing below"],
    ["an absolute path", "chart: {path: /etc}\n", "chart.path: names nothing below"],
    ["the module itself", "chart: {path: ./}\n", "chart.path: names nothing below"],
    ["a link out of the module", "chart: {path: out}\n", "chart.path: names nothing below"],
    ["a directory without Chart.yaml", "chart: {path: hooks}\n", "chart.path: contains no Chart.yaml"],
  ])("%s", async (_, text, message) => {
    const on = await directories();
    await chart(on, "m/chart");
    await on.put("m/5-x/addon.yaml", text);
    await on.put("m/5-x/values.yaml", "x: {a: 1}\n");
    await on.put("m/5-x/hooks/a.txt", "");
    await on.put("m/6-y/values.yaml", "y: {}\n");
    symlinkSync(on.at("m/chart"), on.at("m/5-x/out"));
    const { modules } = await on.read();
    const [broken, other] = modules.filter(({ name }) => name !== "chart");
    const reported = describeProblem(broken?.problem ?? { file: "", message: "" });
    expect(reported).toContain(`${on.at("m/5-x/addon.yaml")}: `);
    expect(reported).toContain(message);
    expect(broken?.own.section).toEqual({ a: 1 });
    expect(other?.problem).toBeUndefined();
  });
});

describe("an archive is refused that", () => {
  const broken: Record<string, [(on: Directories) => Promise<void>, string]> = {
    "is no archive": [(on) => on.put("m/5-x/x.tgz", "<html>"), "incorrect header check"],
    "is cut short": [
      async (on) => writeFileSync(on.at("m/5-x/x.tgz"), gzipSync(Buffer.alloc(9999)).subarray(0, 30)),
      "unexpected end of file",
    ],
    "holds a link": [
      async (on) => {
        await chart(on, "src/public");
        symlinkSync("/etc/passwd", on.at("src/public/templates/passwd"));
        pack(on, "m/5-x/x.tgz", ["public"]);
      },
      "it contains public/templates/passwd, which is a SymbolicLink",
    ],
    "leads out": [
      async (on) => {
        await chart(on, "src/public");
        const options = {
          gzip: true,
          sync: true,
          file: on.at("m/5-x/x.tgz"),
          cwd: on.at("src/public"),
        } as const;
        create({ ...options, preservePaths: true }, ["../public/Chart.yaml"]);
      },
      "leads out of it",
    ],
    "holds a large file": [
      async (on) => {
        await on.put("src/public/big", "x".repeat(5 * 1024 * 1024 + 1));
        pack(on, "m/5-x/x.tgz", ["public"]);
      },
      "public/big is larger than 5 MiB",
    ],
    "holds very many files": [
      async (on) => {
        await on.put("src/public/a", "");
        pack(on, "m/5-x/one.tgz", ["public/a"]);
        const header = gunzipSync(readFileSync(on.at("m/5-x/one.tgz"))).subarray(0, 512);
        const all = Array.from({ length: 10_001 }, () => header);
        writeFileSync(on.at("m/5-x/x.tgz"), gzipSync(Buffer.concat(all)));
      },
      "it contains more than 10000 files",
    ],
    "needs very many directories": [
      async (on) => {
        const headers = Array.from({ length: 200 }, (_, number) => {
          const header = new Header({ path: `public/${number}/${"d/".repeat(60)}a`, type: "File", size: 0 });
          const block = Buffer.alloc(512);
          header.encode(block);
          return block;
        });
        writeFileSync(on.at("m/5-x/x.tgz"), gzipSync(Buffer.concat(headers)));
      },
      "it contains more than 10000 directories",
    ],
    "unpacks to far more": [
      async (on) => {
        const mebibyte = gzipSync(Buffer.alloc(1024 * 1024));
        writeFileSync(on.at("m/5-x/x.tgz"), Buffer.concat(Array.from({ length: 101 }, () => mebibyte)));
      },
      "Cannot create a Buffer larger than",
    ],
    "is compressed twice": [
      async (on) => {
        await chart(on, "src/public");
        pack(on, "m/5-x/once.tgz", ["public"]);
        writeFileSync(on.at("m/5-x/x.tgz"), gzipSync(readFileSync(on.at("m/5-x/once.tgz"))));
      },
      "it is compressed twice",
    ],
    "is very large": [
      async (on) => writeFileSync(on.at("m/5-x/x.tgz"), Buffer.alloc(32 * 1024 * 1024 + 1)),
      "it is larger than 32 MiB",
    ],
  };
  it.each(Object.entries(broken))("%s", async (_, [make, message]) => {
    const on = await directories();
    await on.put("m/5-x/addon.yaml", "chart: {path: x.tgz}\n");
    await make(on);
    const { problem } = await module(on);
    expect(problem?.file).toBe(on.at("m/5-x/x.tgz"));
    expect(problem?.message).toContain(message);
    expect(problem?.remedy).toContain("helm package");
  });
});

it("refuses every change of a valid file that the schema forbids, and names its key", () => {
  for (let seed = 0; seed < 1000; seed++) {
    const { value, key = "" } = violateAddon(diceOf(random(seed)));
    const problem = findAddonProblem(value as JsonObject, "addon.yaml");
    expect(problem && describeProblem(problem)).toContain(key);
  }
});
