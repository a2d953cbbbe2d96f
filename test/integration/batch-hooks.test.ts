// Runs at night: compatibility.
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { expect, onTestFinished, test } from "vitest";

import { batchConfig, writeBatchFile } from "../support/batch-file.ts";
import { cluster, deleteNamespace, eventually, makeNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { hookLab } from "../support/hook-files.ts";
import { launchOperator } from "../support/operator.ts";

// docs/reference/hooks.md, "Batch hooks": a start by the protocol of module-sdk, against the real API server.

test("a module with a batch file starts, follows objects, fails, recovers, and is as ready as its probe says", async () => {
  const { kubectl, apply } = cluster();
  await installCrds();
  const ns = await makeNamespace("batch");
  const lab = hookLab("batch");
  onTestFinished(async () => {
    await deleteNamespace(ns);
    rmSync(lab.dir, { recursive: true, force: true });
  });
  const map = (name: string) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace: ns, labels: { of: "batch" } },
  });
  await apply(map("a"));

  const hooks = join(lab.modulesDir, "010-my-mod", "hooks");
  const path = join(hooks, "batch-hooks");
  const [context, fail, unready] = ["context", "fail", "unready"].map((name) => join(lab.dir, name)) as [
    string,
    string,
    string,
  ];
  const kubernetes = [
    {
      name: "cms",
      apiVersion: "v1",
      kind: "ConfigMap",
      namespace: { nameSelector: { matchNames: [ns] } },
      labelSelector: { matchLabels: { of: "batch" } },
      keepFullObjectsInMemory: false,
      jqFilter: ".metadata.name",
    },
  ];
  const readiness = {
    configVersion: "v1",
    metadata: { name: "readiness" },
    schedule: [{ name: "r", crontab: "* * * * * *" }],
  };
  const patch = {
    apiVersion: "v1",
    kind: "ConfigMap",
    name: "a",
    namespace: ns,
    operation: "MergePatch",
    mergePatch: { data: { by: "batch" } },
  };
  const run = `
    [ "$3" = 0 ] || exit 1
    if [ -e ${fail} ]; then echo '{"message":"execute: hook reconcile func: boom"}' >&2; exit 1; fi
    cat "$BINDING_CONTEXT_PATH" >>${context}
    echo '[{"op":"add","path":"/myMod/module","value":"'"$MODULE_NAME"'"}]' >"$VALUES_JSON_PATCH_PATH"
    echo '{"name":"batch_runs","action":"set","value":1.5,"labels":null}' >"$METRICS_PATH"
    echo '${JSON.stringify(patch)}' >"$KUBERNETES_PATCH_PATH"`;
  const ready = `if [ -e ${unready} ]; then echo '{"message":"no leader"}' >&2; exit 1; fi`;
  writeBatchFile(path, { config: batchConfig({ onStartup: 1, kubernetes }, { readiness }), run, ready });
  lab.file("modules/values.yaml", "myModEnabled: true\n");
  lab.file("modules/010-my-mod/Chart.yaml", "apiVersion: v2\nname: my-mod\nversion: 0.1.0\n");
  lab.file(
    "modules/010-my-mod/templates/map.yaml",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rendered}\ndata: {module: {{ .Values.myMod.module | quote }}}\n",
  );
  lab.file("modules/010-my-mod/values.yaml", "myMod: {}\n");

  const operator = await launchOperator({
    namespace: ns,
    modulesDir: lab.modulesDir,
    globalHooksDir: lab.globalHooksDir,
  });
  onTestFinished(async () => void (await operator.stop()));
  const is = (what: string, check: () => unknown) =>
    eventually(check, what, { context: () => operator.log().slice(-3000) });
  const condition = async (): Promise<object> => {
    const text = await kubectl(["get", "addonmodule", "my-mod", "-n", ns, "-o", "json"]);
    const { status } = JSON.parse(text) as { status?: { conditions?: { type: string }[] } };
    return status?.conditions?.find(({ type }) => type === "Ready") ?? {};
  };
  const contexts = (): unknown[] =>
    existsSync(context)
      ? readFileSync(context, "utf8")
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line) as unknown)
      : [];
  const group = (...names: string[]) => [
    {
      binding: "cms",
      type: "Group",
      groupName: "main",
      snapshots: { cms: names.map((filterResult) => ({ filterResult })) },
    },
  ];
  const calls = (): string[] => readFileSync(`${path}.calls`, "utf8").trimEnd().split("\n");

  await is("it is Ready", async () =>
    expect(await condition()).toMatchObject({ status: "True", reason: "Ready" }),
  );
  expect(contexts()).toEqual([[{ binding: "onStartup" }], group("a")]);
  expect(calls().slice(0, 5)).toEqual(["--config", "hook list", "hook config", "hook run 0", "hook run 0"]);
  expect(
    calls()
      .slice(5)
      .every((call) => call === "hook ready"),
  ).toBe(true);
  const data = (name: string) => kubectl(["get", "configmap", name, "-n", ns, "-o", "jsonpath={.data}"]);
  expect(JSON.parse(await data("rendered"))).toEqual({ module: "my-mod" });
  expect(JSON.parse(await data("a"))).toEqual({ by: "batch" });

  writeFileSync(unready, "");
  await is("its probe fails", async () =>
    expect(await condition()).toMatchObject({
      status: "False",
      reason: "ReadinessProbeFailed",
      message:
        "The readiness probe by hooks/batch-hooks:readiness:ready fails: exit code 1: no leader; where it cannot work in this cluster, set health.readinessProbe: false in addon.yaml",
    }),
  );
  writeFileSync(fail, "");
  await apply(map("b"));
  await is("its hook fails with the error that it reports", () =>
    expect(operator.log()).toContain("exit code 1: execute: hook reconcile func: boom"),
  );
  expect(contexts()).toHaveLength(2);
  rmSync(fail);
  await is("the run is repeated", () => expect(contexts().slice(2)).toEqual([group("a", "b")]));
  rmSync(unready);
  await is("it is Ready again", async () => expect(await condition()).toMatchObject({ status: "True" }));
});
