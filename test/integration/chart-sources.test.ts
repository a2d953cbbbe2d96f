// Runs at night: compatibility.
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";

import type { IModuleSource } from "../../src/report/index.ts";
import { keyPair } from "../sources/registry/artifact/lab.ts";
import { chartServer } from "../sources/registry/charts/lab.ts";
import { putFiles } from "../support/chart-repository.ts";
import { cluster, eventually, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { startOperator, type OperatorProcess } from "../support/operator.ts";
import { fakeRegistry } from "../support/registry.ts";

// docs/guides/module-sources.md, "Public charts": charts as helm packs and pushes them.

const PATIENCE = { timeoutMs: 120_000 };
const run = promisify(execFile);

test(
  "charts of a registry and of a chart repository: refused, allowed, and kept without both",
  { timeout: 480_000 },
  async () => {
    await installCrds();
    const { kubectl, json, apply } = cluster();
    const namespace = await freshNamespace("chart-sources");
    const dir = mkdtempSync(join(tmpdir(), "chart-sources-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const helm = (...args: string[]): Promise<unknown> =>
      run(helmUnderTest(), args, { env: { ...process.env, HELM_CONFIG_HOME: dir, HELM_CACHE_HOME: dir } });

    const packed = join(dir, "packed");
    for (const name of ["web", "api"]) {
      putFiles(join(dir, name), {
        "Chart.yaml": `apiVersion: v2\nname: public-${name}\nversion: 1.4.2\n`,
        "values.yaml": "greeting: hello\n",
        "templates/map.yaml": `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {greeting: {{ .Values.greeting }}}\n`,
      });
      await helm("package", join(dir, name), "-d", packed);
    }
    await helm("repo", "index", packed);
    const server = await chartServer();
    server.index = readFileSync(join(packed, "index.yaml"), "utf8");
    for (const file of readdirSync(packed).filter((each) => each.endsWith(".tgz")))
      server.archives.set(`/charts/${file}`, readFileSync(join(packed, file)));
    const registry = await fakeRegistry();
    await helm("push", join(packed, "public-api-1.4.2.tgz"), `oci://${registry.host}/charts`, "--plain-http");
    registry.calls.length = 0;

    const source = (name: string, spec: object): Promise<unknown> =>
      apply({
        apiVersion: "addon-operator.io/v1alpha1",
        kind: "ModuleSource",
        metadata: { name, namespace },
        spec: { plainHttp: true, ...spec },
      });
    const web = {
      charts: server.url,
      unsigned: true,
      modules: { web: { chart: "public-web", version: "^1", enabled: true } },
    };
    const api = {
      charts: `oci://${registry.host}/charts`,
      unsigned: true,
      modules: {
        api: { chart: "public-api", version: "1.4.2", enabled: true, module: { onFailure: "rollback" } },
      },
    };
    await expect(source("bad", { ...web, registry: `oci://${registry.host}/modules` })).rejects.toThrow(
      "either registry or charts",
    );
    await expect(source("bad", { ...web, unsigned: false })).rejects.toThrow("set unsigned to true");
    await expect(source("bad", { ...web, plainHttp: false })).rejects.toThrow("needs plainHttp");
    await expect(source("bad", { ...web, modules: { web: { tag: "stable" } } })).rejects.toThrow("no tags");
    await expect(
      source("bad", { ...api, charts: undefined, unsigned: undefined, registry: api.charts }),
    ).rejects.toThrow("require charts");
    await source("public", web);
    await source("registry", api);

    const modulesDir = mkdtempSync(join(dir, "modules-"));
    const start = (...allowed: string[]): Promise<OperatorProcess> =>
      startOperator({
        namespace,
        modulesDir,
        args: ["--sources", `--sources-dir=${join(dir, "sources")}`, ...allowed],
      });
    const readyOf = async (name: string) => {
      const { status = {} } = await json<IModuleSource>(["get", "modulesource", name, "-n", namespace]);
      return status.conditions?.find(({ type }) => type === "Ready");
    };
    const greeting = (name: string): Promise<string> =>
      kubectl(["get", "cm", name, "-n", namespace, "-o", "jsonpath={.data.greeting}"]);
    const says = (operator: OperatorProcess, text: string): Promise<unknown> =>
      eventually(
        async () => expect([await greeting("web"), await greeting("api")]).toEqual([text, text]),
        `both charts are installed with ${text}`,
        { ...PATIENCE, context: () => operator.log().slice(-4000) },
      );

    const refusing = await start();
    await eventually(
      async () => {
        for (const name of ["public", "registry"])
          expect(await readyOf(name)).toMatchObject({
            reason: "NotVerified",
            message: expect.stringContaining("--unsigned-charts") as string,
          });
      },
      "both are refused",
      { ...PATIENCE, context: () => refusing.log().slice(-4000) },
    );
    expect([server.calls, registry.calls]).toEqual([[], []]);
    await refusing.stop();

    // "Name the modules": credentials go only to the hosts that their Secret names.
    const other = await fakeRegistry({ auth: "basic" });
    const secret = (name: string, ...args: string[]): Promise<unknown> =>
      kubectl([
        "create",
        "secret",
        "generic",
        name,
        "-n",
        namespace,
        "--from-literal=username=admin",
        ...args,
      ]);
    await secret("db-admin", "--from-literal=password=swordfish");
    await secret("charts", "--from-literal=password=swordfish", "--type=kubernetes.io/basic-auth");
    await kubectl(["annotate", "secret", "charts", "-n", namespace, `addon-operator.io/host=${server.host}`]);
    await source("public", { ...web, secret: "charts" });
    for (const name of ["db-admin", "charts"])
      await source(name, {
        registry: `oci://${other.host}/modules`,
        secret: name,
        modules: { [name]: { tag: "stable" } },
      });
    const keys = { "ci.pub": keyPair().publicPem };
    await apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "addon-operator-keys", namespace },
      data: keys,
    });

    const allowed = `--unsigned-charts=${server.url},oci://${registry.host}`;
    const operator = await start(allowed);
    await says(operator, "hello");
    expect(await readyOf("public")).toMatchObject({ status: "True" });
    await eventually(
      async () => {
        expect((await readyOf("db-admin"))?.message).toContain("Secret db-admin: is of type Opaque");
        expect((await readyOf("charts"))?.message).toContain("401");
      },
      "both sources with credentials of other hosts are refused",
      { ...PATIENCE, context: () => operator.log().slice(-4000) },
    );
    const sent = (calls: readonly { authorization: string | undefined }[]): unknown[] => [
      ...new Set(calls.map(({ authorization }) => authorization)),
    ];
    expect(sent(server.calls)).toEqual([`Basic ${Buffer.from("admin:swordfish").toString("base64")}`]);
    expect(sent(other.calls)).toEqual([undefined]);
    for (const name of ["db-admin", "charts"])
      await kubectl(["delete", "modulesource", name, "-n", namespace]);
    await operator.stop();

    server.isAway = true;
    registry.instead = () => ({ status: 503 });
    await apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "addon-operator", namespace },
      data: { web: "greeting: still here\n", api: "greeting: still here\n" },
    });
    const alone = await start(allowed);
    await says(alone, "still here");
    expect(await readyOf("public")).toMatchObject({ status: "True" });
  },
);
