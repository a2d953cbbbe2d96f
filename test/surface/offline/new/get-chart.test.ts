// Runs at night: few changes touch how a chart is fetched for a new module.
import { execFile } from "node:child_process";
import {
  existsSync,
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
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";

import { tools } from "../../../../scripts/setup/tools.mjs";
import { parseYaml } from "../../../../src/base/index.ts";
import { run, runOffline } from "../../../support/command-line.ts";
import { chartRegistry } from "../../../support/chart-registry.ts";
import type { ChartRegistry } from "../../../support/chart-registry.ts";
import { packChart, repositoryOf } from "../../../support/chart-repository.ts";
import type { Published } from "../../../support/chart-repository.ts";

// docs/reference/commands.md, "Without a cluster": where `new module` and `upgrade-chart` get charts.

const chart = (version: string, size = "1"): Published => ({
  name: "public-web",
  version,
  files: {
    "Chart.yaml": `apiVersion: v2\nname: public-web\nversion: ${version}\n`,
    "values.yaml": `size: ${size}\n`,
    "templates/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n",
  },
});
const CHARTS = [chart("3.9.0"), chart("3.10.0")];

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "chart-sources-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
});

const env = () => ({ PATH: process.env["PATH"], HOME: root, ADDON_OPERATOR_TMP_DIR: join(root, "tmp") });
const settings = (helm: string): string[] => ["--helm-bin", helm, "--modules-dir", join(root, "modules")];
const at = (path = ""): string => join(root, "modules/010-web", path);
const modules = (): string[] => (existsSync(join(root, "modules")) ? readdirSync(join(root, "modules")) : []);
const source = (): unknown => {
  const { value } = parseYaml(readFileSync(at("addon.yaml"), "utf8"), "");
  return (value as { chart: { source: unknown } }).chart.source;
};

function commands(helm = tools().helm) {
  const make = (...args: string[]) => runOffline("new", ["module", "web", ...args, ...settings(helm)], env());
  const upgrade = (...args: string[]) =>
    run(["upgrade-chart", "web", "--yes", ...args, ...settings(helm)], { env: env() });
  return { make, upgrade };
}

async function registry(how: { plain?: boolean; login?: string } = {}): Promise<ChartRegistry> {
  const served = await chartRegistry(CHARTS, how);
  onTestFinished(served.close);
  return served;
}

describe.each(["helm", "helm3"] as const)("a registry, with %s", (name) => {
  const { make, upgrade } = commands(tools()[name]);

  it("gives a version of a chart, later the newest, by an authority of one's own", async () => {
    const { url, ca } = await registry();
    const ref = `${url}/public-web`;
    expect(await make("--chart", ref, "--version", "3.9.0", "--ca-file", ca)).toMatchObject({ code: 0 });
    expect(source()).toEqual({ chart: ref, version: "3.9.0" });
    await expect(upgrade()).rejects.toThrow(/certificate.*--ca-file, and --plain-http/s);
    expect((await upgrade("--ca-file", ca)).text).toContain("public-web 3.9.0 → 3.10.0");
    expect(source()).toEqual({ chart: ref, version: "3.10.0" });
    expect(readdirSync(at()).toSorted()).toEqual(["addon.yaml", "public-web-3.10.0.tgz", "values.yaml"]);
  });

  it("without TLS works with --plain-http", async () => {
    const { url } = await registry({ plain: true });
    expect(await make("--chart", `${url}/public-web`, "--plain-http")).toMatchObject({ code: 0 });
    expect(source()).toEqual({ chart: `${url}/public-web`, version: "3.10.0" });
  });

  it("is upgraded by the chart's name, whatever tag or digest it was pulled by", async () => {
    const { url, digests } = await registry({ plain: true });
    const ref = `${url}/public-web`;
    for (const suffix of [":3.9.0", `@${digests.get("public-web:3.9.0")}`]) {
      expect(await make("--chart", ref + suffix, "--plain-http")).toMatchObject({ code: 0 });
      expect(source()).toEqual({ chart: ref, version: "3.9.0" });
      expect((await upgrade("--plain-http")).text).toContain("3.9.0 → 3.10.0");
      rmSync(at(), { recursive: true });
    }
  });

  it("that wants a password gets the login that helm has", async () => {
    const { url, ca } = await registry({ login: "me:opensesame" });
    const pull = ["--chart", `${url}/public-web`, "--ca-file", ca];
    await expect(make(...pull)).rejects.toThrow(/credential.*see helm registry login/s);
    const auths = { [new URL(url).host]: { auth: Buffer.from("me:opensesame").toString("base64") } };
    mkdirSync(join(root, ".config/helm/registry"), { recursive: true });
    writeFileSync(join(root, ".config/helm/registry/config.json"), JSON.stringify({ auths }));
    expect(await make(...pull)).toMatchObject({ code: 0 });
    expect(readFileSync(at("addon.yaml"), "utf8")).not.toContain("opensesame");
  });

  it("that lacks the chart is reported, and no file is left behind", async () => {
    const { url } = await registry({ plain: true });
    await expect(make("--chart", `${url}/no-such`, "--plain-http")).rejects.toThrow(/no-such: .*404/);
    expect(modules()).toEqual([]);
  });
});

describe.each(["helm", "helm3"] as const)("a repository, with %s", (name) => {
  const { make, upgrade } = commands(tools()[name]);

  /** Puts another archive in the place of one that the index names. */
  async function swapped(version: string, by: Published): Promise<string> {
    const { url, dir, close } = await repositoryOf(CHARTS);
    onTestFinished(close);
    const other = mkdtempSync(join(root, "other-"));
    writeFileSync(join(dir, `public-web-${version}.tgz`), readFileSync(packChart(by, other)));
    return url;
  }
  const from = (repo: string, version: string): string[] =>
    `--chart public-web --repo ${repo} --version ${version}`.split(" ");

  it("whose archive is not the one of its index is refused", async () => {
    const repo = await swapped("3.10.0", chart("3.10.0", "2"));
    await expect(make(...from(repo, "3.10.0"))).rejects.toThrow(
      /the pulled archive of public-web 3\.10\.0 has a digest that differs from its index: sha256:\w+ instead of sha256:/,
    );
    expect(modules()).toEqual([]);
    expect(await make(...from(repo, "3.9.0"))).toMatchObject({ code: 0 });
    await expect(upgrade()).rejects.toThrow("has a digest that differs from its index");
    expect(source()).toMatchObject({ version: "3.9.0" });
    expect(readdirSync(at()).toSorted()).toEqual(["addon.yaml", "public-web-3.9.0.tgz", "values.yaml"]);
  });

  it("whose archive is of a version that the index does not know is refused", async () => {
    const repo = await swapped("3.10.0", chart("3.11.0"));
    await expect(make(...from(repo, "3.10.0"))).rejects.toThrow(
      "the pulled archive is public-web 3.11.0, which its index does not list",
    );
  });

  it("that helm knows by a name is compared as well", async () => {
    const repo = await swapped("3.10.0", chart("3.10.0", "2"));
    await promisify(execFile)(tools()[name], ["repo", "add", "mine", repo], { env: env() });
    await expect(make("--chart", "mine/public-web")).rejects.toThrow(
      "has a digest that differs from its index",
    );
    expect(await make("--chart", "mine/public-web", "--version", "3.9.0")).toMatchObject({ code: 0 });
  });

  it("whose index has no digests is taken as it is", async () => {
    const { url, close } = await repositoryOf(CHARTS, { digests: false });
    onTestFinished(close);
    expect(await make(...from(url, "3.9.0"))).toMatchObject({ code: 0 });
  });

  it("with only pre-releases of the chart needs a version", async () => {
    const { url, close } = await repositoryOf([chart("4.0.0-rc.1"), chart("4.0.0-beta.0")]);
    onTestFinished(close);
    const args = ["--chart", "public-web", "--repo", url];
    await expect(make(...args)).rejects.toThrow(
      /has only pre-releases of public-web \(name one, such as --version 4\.0\.0-\w+\.\d\)/,
    );
    expect(await make(...args, "--version", "4.0.0-rc.1")).toMatchObject({ code: 0 });
  });

  it("that does not exist is reported", async () => {
    const failure = await make(...from("http://127.0.0.1:1", "3.9.0")).catch((error: Error) => error.message);
    expect(failure).toMatch(/^http:\/\/127\.0\.0\.1:1: cannot be reached: .*check the network/);
    expect(existsSync(at())).toBe(false);
  });

  it.each([
    ["--repo", "http://me:opensesame@127.0.0.1:1/x", "helm repo add"],
    ["--repo", "http://127.0.0.1:1/x?private_token=opensesame", "helm repo add"],
    ["--repo", "http://127.0.0.1:1/x?a=b&X-Amz-Signature=opensesame", "helm repo add"],
    ["--chart", "https://opensesame@127.0.0.1:1/x.tgz", "helm repo add"],
    ["--chart", "oci://me:opensesame@127.0.0.1:1/x", "helm registry login"],
  ])(
    "with credentials in its URL is refused, with the way to give them: %s %s",
    async (flag, url, remedy) => {
      const args = flag === "--repo" ? ["--chart", "public-web", flag, url] : [flag, url];
      const failure = await make(...args).catch((error: Error) => error.message);
      expect(failure).toMatch(
        /the URL contains (a user or password|a parameter that looks like a credential)/,
      );
      expect(failure).toContain(remedy);
      expect(failure).not.toContain("opensesame");
      expect(existsSync(at())).toBe(false);
    },
  );
});
