import { readdirSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";

import {
  parseReference,
  readSigningKey,
  RegistryClient,
  Repository,
} from "../../src/sources/registry/index.ts";
import { signArtifact } from "../../src/sources/registry/cosign/sign.ts";
import { describeBytes, digestOf } from "../../src/sources/registry/manifest.ts";
import type { IModuleSource } from "../../src/report/index.ts";
import { packChart } from "../support/chart-repository.ts";
import { PASSWORD, USER } from "../support/registry.ts";
import { hurried, tempDir, type KeyPair } from "./registry/artifact/lab.ts";
import { chartOf, chartServer, type Server } from "./registry/charts/lab.ts";
import { sourcesLab, type SourcesLab } from "./lab.ts";

const MINUTE = 60_000;
type Spec = NonNullable<IModuleSource["spec"]>;
type Modules = NonNullable<Spec["modules"]>;

function conditions(lab: SourcesLab): Record<string, string> {
  return Object.fromEntries((lab.status().conditions ?? []).map(({ type, status }) => [type, status]));
}

const errorOf = (lab: SourcesLab): string => lab.status().modules?.[0]?.error ?? "";

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const isArchive = ({ path }: { readonly path: string }): boolean => path.endsWith(".tgz");

/** A chart repository, and a process that leads; the installer allows its charts unless `allowed` says otherwise. */
async function withRepository(allowed?: string[]): Promise<SourcesLab & { server: Server }> {
  const lab = await sourcesLab();
  const server = await chartServer();
  lab.unsignedCharts = allowed ?? [server.url];
  await lab.start();
  return Object.assign(lab, { server });
}

function name(lab: SourcesLab, server: Server, modules: Modules): void {
  lab.charts({ charts: server.url, unsigned: true, plainHttp: true, modules });
}

/** A repository with `web` 1.0.0 in place. */
async function running(): Promise<SourcesLab & { server: Server }> {
  const lab = await withRepository();
  lab.server.publish(chartOf("web", "1.0.0"));
  name(lab, lab.server, { web: { version: "^1", order: 10, enabled: true } });
  await lab.pass(MINUTE, () => lab.content("web") === "1.0.0" && conditions(lab)["Ready"] === "True");
  return lab;
}

describe("a chart of a chart repository", () => {
  it("becomes a module, pinned by the digest of its archive", async () => {
    const lab = await running();
    const [archive] = lab.server.archives.values();
    expect(lab.locked("web")).toMatchObject({
      version: "1.0.0",
      verifiedBy: "unsigned",
      digest: digestOf(archive ?? Buffer.alloc(0)),
    });
    const { modules } = await lab.tree();
    expect(modules).toMatchObject([
      { name: "web", order: 10, chartVersion: "1.0.0", common: { enabled: true } },
    ]);
    expect(modules[0]?.problem).toBeUndefined();
    expect(lab.status()).toMatchObject({
      modules: [{ name: "web", version: "1.0.0", verifiedBy: "unsigned" }],
    });
  });

  it("is updated in its range, and costs one conditional request at each check", async () => {
    const lab = await running();
    await lab.pass(5 * MINUTE, () => lab.server.calls.at(-1)?.status === 304);
    lab.server.publish(chartOf("web", "1.1.0"));
    lab.server.publish(chartOf("web", "2.0.0"));
    await lab.pass(10 * MINUTE, () => lab.content("web") === "1.1.0");
    expect(lab.locked("web")).toMatchObject({ version: "1.1.0", previous: { version: "1.0.0" } });
  });

  it("stays when the same version is published again with other content", async () => {
    const lab = await running();
    const { digest } = lab.locked("web") ?? {};
    lab.server.publish(chartOf("web", "1.0.0", { "values.yaml": "a: 1\n" }));
    const calls = lab.server.calls.length;
    await lab.pass(20 * MINUTE, () => lab.server.calls.length > calls + 1);
    expect(lab.locked("web")).toMatchObject({ digest });
    // Nor does a disk that does not have it get the other content.
    const follower = await lab.follow();
    const fetched = lab.server.calls.length;
    await lab.pass(MINUTE, () => lab.server.calls.slice(fetched).filter(isArchive).length > 1);
    expect([follower.content("web"), follower.unpacked()]).toEqual([undefined, 0]);
  });

  it("can be the chart of two modules", async () => {
    const lab = await running();
    name(lab, lab.server, { web: { version: "^1" }, two: { chart: "web", version: "^1" } });
    await lab.pass(MINUTE, () => lab.content("two") === "1.0.0");
    await lab.start();
    expect([lab.content("web"), lab.content("two")]).toEqual(["1.0.0", "1.0.0"]);
    expect((await lab.tree()).modules.map(({ problem }) => problem)).toEqual([undefined, undefined]);
  });

  it("stays while the repository is away, also for a start, which sends nothing", async () => {
    const lab = await running();
    lab.server.isAway = true;
    const calls = lab.server.calls.length;
    await lab.start();
    expect(lab.content("web")).toBe("1.0.0");
    expect((await lab.tree()).modules[0]?.problem).toBeUndefined();
    expect(lab.server.calls.length).toBe(calls);
    await lab.pass(20 * MINUTE, () => conditions(lab)["Reachable"] === "False");
    expect(conditions(lab)).toMatchObject({ Ready: "True", Reachable: "False" });
  });

  it.each([
    ["kubernetes.io/basic-auth", () => ({ username: base64(USER), password: base64(PASSWORD) })],
    [
      "kubernetes.io/dockerconfigjson",
      (host: string) => ({
        ".dockerconfigjson": base64(
          JSON.stringify({ auths: { [host]: { username: USER, password: PASSWORD } } }),
        ),
      }),
    ],
  ])("is fetched with a Secret of type %s", async (type, data) => {
    const lab = await withRepository();
    lab.server.isHidden = true;
    lab.server.publish(chartOf("web", "1.0.0"));
    const { host } = lab.server;
    const metadata = { annotations: { "addon-operator.io/host": host } };
    lab.api.put("/api/v1/namespaces/ops/secrets/login", { metadata, type, data: data(host) });
    const modules = { web: { version: "1.0.0" } };
    lab.charts({ charts: lab.server.url, unsigned: true, plainHttp: true, secret: "login", modules });
    await lab.pass(MINUTE, () => lab.content("web") === "1.0.0");
    expect(lab.server.calls.map(({ status }) => status)).toEqual([200, 200]);
  });

  it("is fetched by a follower, which can take over without the repository", async () => {
    const lab = await running();
    const follower = await lab.follow();
    await lab.pass(MINUTE, () => follower.unpacked() === 1);
    lab.server.isAway = true;
    await follower.takeOver();
    expect(follower.content("web")).toBe("1.0.0");
  });

  it("is not used any more once the installer forbids it; its module is Invalid", async () => {
    const lab = await running();
    lab.unsignedCharts = [];
    await lab.start();
    expect(lab.content("web")).toBeUndefined();
    const [module] = (await lab.tree()).modules;
    expect(module?.problem?.message).toContain("--unsigned-charts");
  });
});

describe("settings of a chart's module", () => {
  const addon = ({ dir }: SourcesLab): string => {
    const entry = readdirSync(join(dir, "modules")).find((each) => each.endsWith("web")) ?? "";
    return readFileSync(join(realpathSync(join(dir, "modules", entry)), "addon.yaml"), "utf8");
  };

  it("are the keys of addon.yaml, and changes of them are taken over with the same content", async () => {
    const lab = await withRepository();
    const digest = lab.server.publish(chartOf("public-web", "1.0.0"));
    name(lab, lab.server, {
      web: { chart: "public-web", version: "1.0.0", module: { onFailure: "rollback" } },
    });
    await lab.pass(MINUTE, () => conditions(lab)["Ready"] === "True");
    expect(addon(lab)).toContain("onFailure: rollback");
    const calls = lab.server.calls.length;
    const record = vi.spyOn(lab.state, "record");
    name(lab, lab.server, { web: { chart: "public-web", version: "1.0.0", module: { retries: 7 } } });
    await lab.pass(MINUTE, () => addon(lab).includes("retries: 7"));
    expect(addon(lab)).not.toContain("onFailure");
    await lab.pass(MINUTE, () => record.mock.calls.some(([, moved]) => moved instanceof Set));
    expect(record).toHaveBeenCalledWith("filesChanged", new Set(["web"]));
    expect(lab.locked("web")).toMatchObject({ digest, chart: { terms: { retries: 7 } } });
    expect(lab.locked("web")?.["isNew"]).toBeUndefined();
    expect(lab.server.calls.length).toBe(calls);
    expect((await lab.tree()).modules[0]).toMatchObject({ retries: 7 });
  });

  it("that do not fit the cluster change nothing", async () => {
    const lab = await running();
    const module = { requires: { kubernetes: ">=1.99" } };
    name(lab, lab.server, { web: { version: "^1", order: 10, enabled: true, module } });
    await lab.pass(MINUTE, () => conditions(lab)["Stalled"] === "True");
    expect(errorOf(lab)).toContain("requires Kubernetes >=1.99");
    expect(addon(lab)).not.toContain("requires");
  });

  it("of another chart bring that chart's version", async () => {
    const lab = await running();
    const digest = lab.server.publish(chartOf("other", "1.0.0"));
    name(lab, lab.server, { web: { chart: "other", version: "1.0.0" } });
    await lab.pass(MINUTE, () => lab.locked("web")?.["digest"] === digest);
    expect(lab.locked("web")).toMatchObject({ digest, chart: { name: "other" } });
  });
});

describe("what is refused", () => {
  it("a chart of a place that the installer does not allow: nothing is asked there", async () => {
    const lab = await withRepository(["https://charts.example.org", "oci://registry.example.com"]);
    lab.server.publish(chartOf("web", "1.0.0"));
    name(lab, lab.server, { web: { version: "1.0.0" } });
    await lab.pass(MINUTE, () => conditions(lab)["Stalled"] === "True");
    expect(errorOf(lab)).toContain("without a signature (--unsigned-charts)");
    expect(lab.server.calls).toEqual([]);
    expect(lab.locked("web")).toBeUndefined();
  });

  it.each<[string, (lab: SourcesLab & { server: Server }) => void, string]>([
    [
      "another chart in the archive",
      ({ server }) => {
        server.publish(chartOf("web", "1.0.0"));
        server.publish({ ...chartOf("other", "1.0.0"), name: "web" });
      },
      'is the chart "other" in version "1.0.0", not "web"',
    ],
    [
      "another version in the archive",
      ({ server }) => server.publish({ ...chartOf("web", "0.9.0"), version: "1.0.0" }),
      'in version "0.9.0", not "web" in version "1.0.0"',
    ],
    [
      "no archive",
      ({ server }) => {
        server.index = `entries:\n  web:\n  - version: 1.0.0\n    urls: [x.tgz]\n`;
        server.archives.set("/charts/x.tgz", Buffer.from("no archive"));
      },
      "cannot be unpacked",
    ],
    [
      "no Chart.yaml",
      ({ server }) => server.publish({ name: "web", version: "1.0.0", files: { "values.yaml": "" } }),
      "Chart.yaml",
    ],
  ])("%s", async (_, publish, message) => {
    const lab = await withRepository();
    publish(lab);
    name(lab, lab.server, { web: { version: "1.0.0" } });
    await lab.pass(MINUTE, () => conditions(lab)["Stalled"] === "True");
    expect(errorOf(lab)).toContain(message);
    expect(readdirSync(join(lab.dir, "unpacked"))).toEqual([]);
    const fetched = (): number => lab.server.calls.filter(isArchive).length;
    const before = fetched();
    await lab.pass(20 * MINUTE);
    expect(fetched()).toBe(before);
  });

  it("bytes that are not those of the index", async () => {
    const lab = await withRepository();
    lab.server.publish(chartOf("web", "1.0.0"));
    lab.server.archives.set("/charts/web-1.0.0.tgz", Buffer.from("x"));
    name(lab, lab.server, { web: { version: "1.0.0" } });
    await lab.pass(MINUTE, () => errorOf(lab).includes("has other content"));
    expect(errorOf(lab)).toContain("has other content");
    expect(readdirSync(join(lab.dir, "blobs/sha256"))).toEqual([]);
  });
});

describe("a chart of a registry", () => {
  /** Pushes a chart as helm does, signed by a key or by none; returns its digest. */
  async function push(
    { lab }: SourcesLab,
    version: string,
    { key, config = CONFIG }: { key?: KeyPair; config?: string } = {},
  ): Promise<string> {
    const client = new RegistryClient({
      host: lab.registry.host,
      plainHttp: true,
      readLogin: () => ({ username: USER, password: PASSWORD }),
      clock: hurried,
    });
    const place = parseReference(`oci://${lab.registry.host}/charts/web`);
    const repository = new Repository(client, place);
    const archive = readFileSync(packChart(chartOf("web", version), tempDir()));
    const about = Buffer.from(JSON.stringify({ name: "web", version, apiVersion: "v2" }));
    for (const each of [archive, about]) await repository.pushBlob(each);
    const manifest = Buffer.from(
      JSON.stringify({
        schemaVersion: 2,
        config: describeBytes(about, config),
        layers: [describeBytes(archive, "application/vnd.cncf.helm.chart.content.v1.tar+gzip")],
      }),
    );
    const described = await repository.pushManifest(manifest, MANIFEST, version);
    if (key !== undefined)
      await signArtifact(repository, described, {
        key: readSigningKey(key.privatePem, "test.key", undefined),
        repositoryAddress: "charts/web",
      });
    await client.close();
    return digestOf(manifest);
  }
  const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
  const CONFIG = "application/vnd.cncf.helm.config.v1+json";

  async function withCharts(unsigned: boolean, isAllowed = true): Promise<SourcesLab> {
    const lab = await sourcesLab();
    const charts = `oci://${lab.lab.registry.host}/charts`;
    lab.unsignedCharts = isAllowed ? [charts] : [];
    await lab.start();
    const source = lab.charts.bind(lab);
    lab.charts = (spec) => source({ charts, plainHttp: true, ...(unsigned && { unsigned }), ...spec });
    return lab;
  }

  it("that a key has signed needs nothing else", async () => {
    const lab = await withCharts(false, false);
    const digest = await push(lab, "1.4.2", { key: lab.lab.key });
    lab.charts({ modules: { web: { version: "~1.4" } } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.4.2");
    expect(lab.locked("web")).toMatchObject({ digest, verifiedBy: "ci.pub" });
    const calls = lab.lab.registry.calls.length;
    lab.lab.registry.failures = { status: 503, left: Infinity };
    await lab.start();
    expect(lab.content("web")).toBe("1.4.2");
    expect(lab.lab.registry.calls.length).toBe(calls);
  });

  it("without a signature is refused, although the installer allows it, unless the source says unsigned", async () => {
    const lab = await withCharts(false);
    await push(lab, "1.4.2");
    lab.charts({ modules: { web: { version: "1.4.2" } } });
    await lab.pass(MINUTE, () => conditions(lab)["Stalled"] === "True");
    expect(errorOf(lab)).toContain("has no valid signature");
    lab.charts({ unsigned: true, modules: { web: { version: "1.4.2" } } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.4.2");
    expect(lab.locked("web")).toMatchObject({ verifiedBy: "unsigned" });
  });

  it("without a signature is refused where the installer does not allow it", async () => {
    const lab = await withCharts(true, false);
    await push(lab, "1.4.2");
    const calls = lab.lab.registry.calls.length;
    lab.charts({ modules: { web: { version: "1.4.2" } } });
    await lab.pass(MINUTE, () => conditions(lab)["Stalled"] === "True");
    expect(errorOf(lab)).toContain("--unsigned-charts");
    expect(lab.lab.registry.calls.length).toBe(calls);
  });

  it("is followed on a channel; a tag that moves to other content of the version is taken by its digest", async () => {
    const lab = await withCharts(true);
    await push(lab, "1.4.2");
    const { manifests } = lab.lab.registry;
    const point = (version: string): void =>
      void manifests.set("charts/web@stable", manifests.get(`charts/web@${version}`)!);
    point("1.4.2");
    lab.charts({ modules: { web: { tag: "stable" } } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.4.2");
    await push(lab, "1.5.0");
    point("1.5.0");
    await lab.pass(10 * MINUTE, () => lab.content("web") === "1.5.0");
    expect(lab.locked("web")).toMatchObject({ version: "1.5.0", previous: { version: "1.4.2" } });
  });

  it("that is no chart is refused", async () => {
    const lab = await withCharts(true);
    await push(lab, "1.4.2", { config: "application/vnd.oci.image.config.v1+json" });
    lab.charts({ modules: { web: { version: "1.4.2" } } });
    await lab.pass(MINUTE, () => conditions(lab)["Stalled"] === "True");
    expect(errorOf(lab)).toContain("is of type application/vnd.oci.image.config.v1+json, not a chart");
  });
});

describe("a source that changes its kind", () => {
  it("from signed modules to charts: the module gets the chart, although the version is the same", async () => {
    const lab = await withRepository();
    await lab.push("1.0.0");
    lab.source({ web: { version: "1.0.0", enabled: true } });
    await lab.pass(MINUTE, () => lab.locked("web")?.["verifiedBy"] === "ci.pub");
    const digest = lab.server.publish(chartOf("web", "1.0.0"));
    name(lab, lab.server, { web: { version: "1.0.0", enabled: true } });
    await lab.pass(MINUTE, () => lab.locked("web")?.["digest"] === digest);
    expect(lab.locked("web")).toMatchObject({ digest, verifiedBy: "unsigned" });
  });
});
