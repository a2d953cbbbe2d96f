import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { kubectl as runKubectl } from "../../scripts/control-plane.mjs";
import { cluster, eventually, freshNamespace, kubeconfigWith } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { hookLab } from "../support/hook-files.ts";

import { makeTeam, messageOf, startWithTeams, statusOf, teamModule } from "../support/tenants.ts";

// docs/guides/tenancy.md, "Give a module a ServiceAccount": tokens of hooks, and an account that is not known.

const { kubectl, apply, json } = cluster();

/** Leaves its token, and says who it is with it. */
const leak = (team: string): string => `cp "$(dirname "$KUBECONFIG")/token" "$RECORDS/$me.token"
kubectl auth whoami -o jsonpath={.status.userInfo.username} >"$RECORDS/$me.user"
kubectl get secrets -n ${team} -o name -l app.kubernetes.io/managed-by=addon-operator >"$RECORDS/$me.secrets"`;

/** Whether the API server accepts the token of a kubeconfig. */
function isAccepted(kubeconfig: string): Promise<boolean> {
  return runKubectl({ bin: cluster().bin, kubeconfig }, ["auth", "whoami"]).then(
    () => true,
    (error: unknown) => {
      expect(String(error)).toContain("Unauthorized");
      return false;
    },
  );
}

test(
  "a token of a run is refused when the run has ended, also if it has failed",
  { timeout: 120_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("tenancy");
    const team = await makeTeam(namespace, "team-a");
    const lab = hookLab("tenancy");
    teamModule(lab, "web", team);
    const config = { configVersion: "v1", beforeHelm: 1 };
    lab.hook("modules/010-web/hooks/leak.sh", config, leak(team.namespace));
    lab.hook("modules/010-web/hooks/wait.sh", config, `wait_for end; [ -e "$RECORDS/go-good" ]`);
    const operator = await startWithTeams(namespace, lab);
    const context = operator.log;
    const record = (name: string): string => readFileSync(join(lab.dir, "records", name), "utf8");
    await eventually(() => lab.runs("wait").length > 0, "the second hook waits", { context });
    expect(record("leak.user")).toBe(`system:serviceaccount:${team.namespace}:deployer`);
    expect(record("leak.secrets")).toMatch(/^secret\/addon-operator-run-web-[0-9a-f]{10}\n$/);

    // It lasts as long as the run, not as the hook.
    const first = await kubeconfigWith(record("leak.token"));
    expect(await isAccepted(first)).toBe(true);
    lab.release("end");
    // The API server keeps an accepted token in its cache for some seconds, and each question starts a kubectl.
    const patient = { context, intervalMs: 500 };
    await eventually(
      async () => !(await isAccepted(first)),
      "the token of the failed run is refused",
      patient,
    );
    lab.release("good");
    await eventually(async () => (await statusOf(namespace, "web")).state === "Ready", "web is Ready", {
      context,
    });
    const last = await kubeconfigWith(record("leak.token"));
    await eventually(async () => !(await isAccepted(last)), "the token of the last run is refused", patient);
    const left = [
      "get",
      "secrets",
      "-n",
      team.namespace,
      "-o",
      "name",
      "-l=app.kubernetes.io/managed-by=addon-operator",
    ];
    expect(await kubectl(left)).toBe("");
    expect((await statusOf(namespace, "web")).identity?.message ?? "").not.toContain("token");
  },
);

test(
  "the operator does nothing as itself for a module whose addon.yaml is no YAML at the start",
  { timeout: 120_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("tenancy");
    const team = await makeTeam(namespace, "team-a");
    const lab = hookLab("tenancy");
    for (const name of ["broken", "other"]) teamModule(lab, name, team);
    const first = await startWithTeams(namespace, lab);
    const isIn = (state: string, log: () => string) => (name: string) =>
      eventually(async () => (await statusOf(namespace, name)).state === state, `${name} is ${state}`, {
        context: log,
      });
    await Promise.all(["broken", "other"].map(isIn("Ready", first.log)));
    await first.stop();

    lab.file(
      "modules/010-broken/addon.yaml",
      `namespace: ${team.namespace}\nserviceAccountName: ${team.id}\n  : [\n`,
    );
    // Its hooks are not even asked for their configuration.
    const config = JSON.stringify({ configVersion: "v1", onStartup: 1 });
    const ask = `#!/bin/sh\ntouch ${lab.dir}/records/asked\necho '${config}'\n`;
    lab.file("modules/010-broken/hooks/ask.sh", ask);
    for (const name of ["broken", "other"])
      await kubectl(["delete", "configmap", name, "-n", team.namespace]);
    await apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "addon-operator", namespace } });
    const operator = await startWithTeams(namespace, lab);
    const context = operator.log;
    await isIn("Invalid", context)("broken");
    await isIn("Ready", context)("other");
    expect(await messageOf(namespace, "broken")).toContain("addon.yaml");
    // Neither a restore nor a preview acts as the operator.
    const { stdout, stderr } = await operator.cli(["module", "diff", "broken"]);
    expect(stdout + stderr).toContain("it is not known as whom the module acts");
    const maps = await json<{ items: { metadata: { name: string } }[] }>([
      "get",
      "configmaps",
      "-n",
      team.namespace,
    ]);
    const names = maps.items.map(({ metadata }) => metadata.name);
    expect(names).toContain("other");
    expect(names).not.toContain("broken");
    expect(existsSync(join(lab.dir, "records", "asked"))).toBe(false);

    lab.file(
      "modules/010-broken/addon.yaml",
      `namespace: ${team.namespace}\nserviceAccountName: ${team.id}\n`,
    );
    await operator.cli(["module", "run", "broken"]);
    await isIn("Ready", context)("broken");
  },
);
