import { cpSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { querySocket } from "../../src/main/commands/operator/socket.ts";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { callOf } from "../support/command-line.ts";
import { fileTree } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

const CONFIG_MAP = `apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {size: "{{ .Values.webShop.size }}", host: "{{ .Values.webShop.host }}"}
`;

const HOOK = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "beforeHelm": 1, "kubernetes": [{"name": "maps", "kind": "ConfigMap", "namespace": {"nameSelector": {"matchNames": ["none"]}}}]}'
  exit 0
fi
printf '{"op": "add", "path": "/webShop/host", "value": "a.example"}' >"$VALUES_JSON_PATCH_PATH"
`;

const FILES: Readonly<Record<string, string>> = {
  "modules/values.yaml": "global: {cluster: east}\n",
  "modules/010-web-shop/Chart.yaml": "apiVersion: v2\nname: web-shop\nversion: 1.0.0\n",
  "modules/010-web-shop/templates/map.yaml": CONFIG_MAP,
  "modules/010-web-shop/values.yaml": "webShop: {size: 1}\nwebShopEnabled: true\n",
  "modules/010-web-shop/hooks/host": HOOK,
  "modules/020-off/Chart.yaml": "apiVersion: v2\nname: off\nversion: 1.0.0\n",
};

test("the command line asks a running operator", { timeout: 240_000 }, async () => {
  const root = fileTree("cli", FILES);
  const namespace = await freshNamespace("cli");
  const places = { namespace, modulesDir: join(root, "modules"), globalHooksDir: join(root, "hooks") };
  const operator = await startOperator(places);
  await operator.waitReady();

  const cli = async (line: string): Promise<string> => {
    const { code, stdout, stderr } = await operator.cli(line.split(" "));
    expect([line, code, stderr]).toEqual([line, 0, ""]);
    return stdout;
  };
  // The same without a process for each: a start of the program takes its time.
  const run = async (line: string): Promise<string> => {
    const { status, body } = await querySocket(operator.socket, callOf(line.split(" ")));
    expect([line, status]).toEqual([line, 200]);
    return body;
  };
  const json = async (line: string): Promise<unknown> => JSON.parse(await run(`${line} -o json`));

  expect(await json("module list")).toEqual({ enabledModules: ["web-shop"] });
  expect(await cli("module list")).toBe("enabledModules:\n  - web-shop\n");
  expect(await json("module values web-shop")).toEqual({ size: 1, host: "a.example" });
  expect(await json("module values web-shop --explain")).toEqual({
    "/size": `module values.yaml: ${root}/modules/010-web-shop/values.yaml`,
    "/host": "hook patch: hooks/host",
  });
  expect(await json("module values web-shop -g")).toMatchObject({ global: { cluster: "east" } });
  expect(await json("module config web-shop")).toEqual({});
  expect(await json("module patches web-shop")).toHaveLength(1);
  expect(await json("module snapshots web-shop")).toHaveProperty(["hooks/host", "maps"]);
  expect(await cli("module why off")).toContain("Disabled because nothing enables it");
  expect(await run("module why web-shop")).toContain("nothing is due");
  expect(await cli("queue list -o text")).toContain("- 'main' queue: empty.");
  expect(await json("queue main")).toMatchObject({ name: "main", tasksCount: 0 });
  expect(await json("global values")).toEqual({ cluster: "east" });
  expect(await json("global list")).toMatchObject({ globalHooks: [] });
  expect(await json("global snapshots")).toEqual({});
  expect(await json("config set log.level debug 1m")).toEqual({ "log.level": "debug" });
  expect(await run("raw /version")).toContain("version: ");
  expect(await cli("version")).toMatch(/^addon-operator \d/);
  expect(await cli("--help")).toContain("--modules-dir");
  await eventually(async () => {
    const displayed = await json("module resource-monitor");
    expect(displayed).toEqual({ "web-shop": [`${namespace}/ConfigMap/web-shop`] });
  }, "the release's objects are watched");

  expect(await run("module render web-shop")).toContain('host: "a.example"');
  expect(await run("module render web-shop --diff")).toBe("No diff found\n");
  expect(await json("plan")).toMatchObject({
    install: {},
    upgrade: {},
    delete: {},
    purge: {},
    unchanged: { "web-shop": "inputs are the same" },
    disabled: { off: "disabled by none" },
  });

  // What a start would do is seen before it is done, and looking changes nothing.
  writeFileSync(
    join(root, "modules/010-web-shop/templates/map.yaml"),
    CONFIG_MAP.replace("size:", "larger:"),
  );
  cpSync(join(root, "modules/010-web-shop"), join(root, "modules/030-more"), { recursive: true });
  rmSync(join(root, "modules/030-more/hooks"), { recursive: true });
  writeFileSync(join(root, "modules/030-more/values.yaml"), "moreEnabled: true\nmore: {}\n");
  writeFileSync(join(root, "modules/030-more/templates/map.yaml"), CONFIG_MAP.replaceAll("webShop", "more"));
  cpSync(join(root, "modules/030-more"), join(root, "modules/040-broken"), { recursive: true });
  writeFileSync(join(root, "modules/040-broken/values.yaml"), "brokenEnabled: true\n");
  writeFileSync(join(root, "modules/040-broken/templates/map.yaml"), "{{ nonsense }}\n");
  expect(await json("plan")).toMatchObject({
    install: { more: "there is no release" },
    retrying: { broken: expect.stringContaining('function "nonsense" not defined') },
    upgrade: { "web-shop": "inputs changed; the manifest changes" },
  });
  const diff = await run("module render web-shop --diff");
  expect(diff).toContain("-  size:");
  expect(diff).toContain("+  larger:");
  const secrets = await cluster().kubectl([
    "get",
    "secrets",
    "-n",
    namespace,
    "-l",
    "owner=helm",
    "-o",
    "name",
  ]);
  expect(secrets.trim().split("\n")).toEqual(["secret/sh.helm.release.v1.web-shop.v1"]);

  // A run asked for by hand takes the new template.
  expect(await run("module run web-shop")).toBe("run of web-shop requested\n");
  await eventually(async () => {
    expect(await run("module render web-shop --diff")).toBe("No diff found\n");
  }, "the run is over");

  const wrong = await operator.cli(["module", "values", "nope"]);
  expect(wrong).toEqual({ code: 1, stdout: "", stderr: "module not found: nope\n" });
  expect((await operator.cli(["queue", "bogus"])).code).toBe(2);
  await operator.stop();
  expect((await operator.cli(["queue", "list"])).code).toBe(1);
});
