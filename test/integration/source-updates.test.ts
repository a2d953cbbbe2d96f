// Runs at night: moves and limits that few changes touch.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import type { IAddonModule, IModuleSource } from "../../src/report/index.ts";
import { moduleDir, registryLab } from "../sources/registry/artifact/lab.ts";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { startOperator } from "../support/operator.ts";

// docs/guides/module-sources.md: ranges, channels, approval; a module never goes back by itself.

test("a range, an approval, and a channel that moves back", { timeout: 180_000 }, async () => {
  await installCrds();
  const { kubectl, json, apply } = cluster();
  const lab = await registryLab({ hasReferrers: true });
  const namespace = await freshNamespace("source-updates");
  const dir = mkdtempSync(join(tmpdir(), "source-updates-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const data = { "ci.pub": lab.key.publicPem };
  await apply({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "addon-operator-keys", namespace },
    data,
  });
  const push = (version: string): Promise<string> => {
    const chart = `apiVersion: v2\nname: web\nversion: ${version}\n`;
    const map = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {version: "{{ .Chart.Version }}"}\n`;
    return lab.push(version, { dir: moduleDir({ "Chart.yaml": chart, "templates/map.yaml": map }) });
  };
  let requests = 0;
  const source = (web: object, update: object): Promise<unknown> =>
    apply({
      apiVersion: "addon-operator.io/v1alpha1",
      kind: "ModuleSource",
      metadata: {
        name: "platform",
        namespace,
        annotations: { "reconcile.addon-operator.io/requestedAt": `${(requests += 1)}` },
      },
      spec: {
        registry: `oci://${lab.registry.host}/modules`,
        plainHttp: true,
        modules: { web: { ...web, enabled: true } },
        update,
      },
    });
  const status = async () =>
    (await json<IModuleSource>(["get", "modulesource", "platform", "-n", namespace])).status ?? {};
  const operator = await startOperator({
    namespace,
    modulesDir: mkdtempSync(join(dir, "modules-")),
    args: ["--sources", `--sources-dir=${join(dir, "sources")}`],
  });
  const runs = (version: string): Promise<unknown> =>
    eventually(
      async () =>
        expect(await kubectl(["get", "cm", "web", "-n", namespace, "-o", "jsonpath={.data.version}"])).toBe(
          version,
        ),
      `version ${version} runs`,
      { context: () => operator.log().slice(-4000) },
    );
  const waits = (version: string, why: string): Promise<unknown> =>
    eventually(
      async () => {
        const { modules = [], waiting } = await status();
        expect([waiting, modules[0]?.next?.version, modules[0]?.next?.held]).toEqual([
          1,
          version,
          expect.stringContaining(why),
        ]);
      },
      `version ${version} waits`,
      { context: () => operator.log().slice(-4000) },
    );

  await operator.waitReady();
  await push("1.4.2");
  await push("2.0.0");
  await source({ version: "^1" }, { approval: "patch" });
  await runs("1.4.2");

  await push("1.4.3");
  await source({ version: "^1" }, { approval: "patch" });
  await runs("1.4.3");

  const digest = await push("1.5.0");
  await source({ version: "^1" }, { approval: "patch" });
  await waits("1.5.0", "1.5.0 is no patch of 1.4.3: it waits for approval");
  await kubectl([
    "annotate",
    "-n",
    namespace,
    "addonmodule/web",
    `addon-operator.io/approve=1.5.0@${digest}`,
  ]);
  await runs("1.5.0");
  await eventually(async () => {
    const path = "jsonpath={.metadata.annotations.addon-operator\\.io/approve}";
    expect(await kubectl(["get", "-n", namespace, "addonmodule/web", "-o", path])).toBe("");
  }, "the approval is used once");

  // A channel that moves back.
  await lab.tag("web:1.4.2", "stable");
  await source({ tag: "stable" }, {});
  await waits("1.4.2", "1.4.2 is older than 1.5.0");
  await lab.tag("web:2.0.0", "stable");
  await source({ tag: "stable" }, {});
  await runs("2.0.0");

  // Content with an error that `lint` finds does not replace what runs.
  const blocks = async (version: string, files: Record<string, string>, why: string): Promise<void> => {
    const chart = `apiVersion: v2\nname: web\nversion: ${version}\n`;
    await lab.push(version, { dir: moduleDir({ "Chart.yaml": chart, ...files }) });
    await lab.tag(`web:${version}`, "stable");
    await source({ tag: "stable" }, {});
    await eventually(
      async () => {
        const ready = (await status()).conditions?.find(({ type }) => type === "Ready");
        expect(ready).toMatchObject({ reason: "Blocked", message: expect.stringContaining(why) });
      },
      `version ${version} is blocked`,
      { context: () => operator.log().slice(-4000) },
    );
  };
  await blocks(
    "2.1.0",
    { "templates/bad.yaml": "{{ .Values.x | nosuch }}" },
    'function "nosuch" not defined',
  );
  const hook = '#!/bin/sh\necho \'{"configVersion":"v1","nonsense":1}\'\n';
  await blocks("2.2.0", { "hooks/h.sh": hook }, "nonsense");
  await runs("2.0.0");
});

test(
  "an update that helm cannot apply goes back, chart and hooks together",
  { timeout: 180_000 },
  async () => {
    await installCrds();
    const { kubectl, json, apply } = cluster();
    const lab = await registryLab({ hasReferrers: true });
    const namespace = await freshNamespace("source-rollback");
    const dir = mkdtempSync(join(tmpdir(), "source-rollback-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const keys = { name: "addon-operator-keys", namespace };
    await apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: keys,
      data: { "ci.pub": lab.key.publicPem },
    });
    const ran = join(dir, "ran");
    const push = (version: string, type = "ClusterIP"): Promise<string> =>
      lab.push(version, {
        dir: moduleDir({
          "Chart.yaml": `apiVersion: v2\nname: web\nversion: ${version}\n`,
          "addon.yaml": "onFailure: rollback\nretries: 1\n",
          "hooks/note.sh": `#!/bin/sh\nif [ "$1" = --config ]; then echo '{"configVersion":"v1","beforeHelm":1}'; else echo ${version} >${ran}; fi\n`,
          "templates/all.yaml": `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {version: "${version}"}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: ${type}, ports: [{port: 80}]}\n`,
        }),
      });
    let requests = 0;
    const source = (): Promise<unknown> =>
      apply({
        apiVersion: "addon-operator.io/v1alpha1",
        kind: "ModuleSource",
        metadata: {
          name: "platform",
          namespace,
          annotations: { "reconcile.addon-operator.io/requestedAt": `${(requests += 1)}` },
        },
        spec: {
          registry: `oci://${lab.registry.host}/modules`,
          plainHttp: true,
          modules: { web: { version: "^1", enabled: true } },
        },
      });
    const operator = await startOperator({
      namespace,
      modulesDir: mkdtempSync(join(dir, "modules-")),
      args: ["--sources", `--sources-dir=${join(dir, "sources")}`],
    });
    await operator.waitReady();
    const isInForce = (version: string): Promise<unknown> =>
      eventually(
        async () => {
          const path = "jsonpath={.data.version}";
          const found = await kubectl(["get", "cm", "web", "-n", namespace, "-o", path]);
          const module = await json<IAddonModule>(["get", "addonmodule", "web", "-n", namespace]);
          const { state, source: from } = module.status ?? {};
          const hook = readFileSync(ran, "utf8").trim();
          expect([found, state, from?.version, hook]).toEqual([version, "Ready", version, version]);
        },
        `version ${version} is in force`,
        { context: () => operator.log().slice(-6000) },
      );

    await push("1.4.2");
    await source();
    await isInForce("1.4.2");
    const bad = await push("1.5.0", "Unheard");
    await source();
    await eventually(
      async () => {
        const { status } = await json<IModuleSource>(["get", "modulesource", "platform", "-n", namespace]);
        const rejected = status?.conditions?.find(({ type }) => type === "Rejected");
        expect(rejected?.message).toContain("web: 1.4.2 is in use again: 1.5.0 is not tried again");
        expect(status?.modules).toMatchObject([{ version: "1.4.2", rejected: [bad] }]);
      },
      "1.5.0 is rejected",
      { context: () => operator.log().slice(-6000) },
    );
    await isInForce("1.4.2");
    await push("1.5.1");
    await source();
    await isInForce("1.5.1");
  },
);
