// Runs at night: restarts.
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";

import { writePki } from "../../scripts/control-plane/pki.mjs";
import { cluster, clusterOf, eventually, freshNamespace, ownCluster } from "../support/cluster.ts";
import type { Cluster } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/guides/running.md, "Credentials": tokens and certificates are replaced under a running operator.

/** A kubeconfig as text; paths in it are relative to its folder. */
function config(server: string, ca: object, user: object): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "c",
    clusters: [{ name: "c", cluster: { server, ...ca } }],
    users: [{ name: "c", user }],
    contexts: [{ name: "c", context: { cluster: "c", user: "c" } }],
  });
}

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), "rotation-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** As the kubelet does it: readers see the old content or the new. */
function replace(file: string, text: string): void {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}

/** One module whose chart shows a value. */
function modules(): string {
  const lab = hookLab("rotation");
  lab.file("modules/site/Chart.yaml", "apiVersion: v2\nname: site\nversion: 1.0.0\n");
  lab.file(
    "modules/site/templates/map.yaml",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\ndata: {size: {{ .Values.site.size | quote }}}\n",
  );
  lab.file("modules/site/values.yaml", "site:\n  size: 1\n");
  return lab.modulesDir;
}

interface Site {
  readonly where: Pick<Cluster, "kubectl">;
  readonly namespace: string;
}

async function resize({ where, namespace }: Site, size: number): Promise<void> {
  const patch = JSON.stringify({ data: { siteEnabled: "true", site: `size: ${size}\n` } });
  await where.kubectl(["patch", "configmap", "addon-operator", "-n", namespace, "--type=merge", "-p", patch]);
}

/** Resolves when helm has brought the value into the cluster: watches, writes and helm all work. */
async function arrives({ where, namespace }: Site, size: number, log: () => string): Promise<void> {
  const what = ["get", "configmap", "site", "-n", namespace, "-o", "jsonpath={.data.size}"];
  await eventually(async () => (await where.kubectl(what)) === String(size), `size ${size}`, {
    timeoutMs: 60_000,
    context: () => log().slice(-3000),
  });
}

test("a ServiceAccount's token is replaced, the old one refused", { timeout: 240_000 }, async () => {
  const { kubectl, apply, kubeconfig } = cluster();
  const namespace = await freshNamespace("rotation");
  const site: Site = { where: cluster(), namespace };
  const meta = (name: string) => ({ name, namespace });
  await apply(
    { apiVersion: "v1", kind: "ServiceAccount", metadata: meta("operator") },
    { apiVersion: "v1", kind: "Secret", metadata: meta("first") },
    { apiVersion: "v1", kind: "Secret", metadata: meta("second") },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: namespace },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
      subjects: [{ kind: "ServiceAccount", name: "operator", namespace }],
    },
  );
  onTestFinished(async () => void (await kubectl(["delete", "clusterrolebinding", namespace])));
  // A token that is bound to an object is good for as long as that lives.
  const tokenOf = (name: string) =>
    kubectl([
      "create",
      "token",
      "operator",
      "-n",
      namespace,
      "--bound-object-kind=Secret",
      `--bound-object-name=${name}`,
    ]);
  const dir = folder();
  const view = ["config", "view", "--raw", "--minify", "-o", "json", `--kubeconfig=${kubeconfig}`];
  const { clusters } = JSON.parse(await kubectl(view)) as { clusters: { cluster: { server: string } }[] };
  const { server = "", ...ca } = clusters[0]?.cluster ?? {};
  const [file, token] = [join(dir, "config"), join(dir, "token")];
  writeFileSync(file, config(server, ca, { tokenFile: token }));
  writeFileSync(token, await tokenOf("first"));
  const old = readFileSync(token, "utf8").trim();
  const operator = await startOperator({ namespace, modulesDir: modules(), kubeconfig: file });
  await operator.waitReady();
  await resize(site, 2);
  await arrives(site, 2, operator.log);

  replace(token, await tokenOf("second"));
  await kubectl(["delete", "secret", "first", "-n", namespace]);
  const bare = join(dir, "old");
  writeFileSync(bare, config(server, ca, { token: old }));
  const refused = () =>
    kubectl(["auth", "whoami", `--kubeconfig=${bare}`]).then(
      () => false,
      () => true,
    );
  await eventually(refused, "the old token is refused");

  await resize(site, 3);
  await arrives(site, 3, operator.log);
  await kubectl(["wait", "addonmodule/site", "-n", namespace, "--for=condition=Ready", "--timeout=120s"]);
  expect((await operator.http("/healthz")).status).toBe(200);
});

describe.each([
  ["a file of its own", (dir: string) => ({ "certificate-authority": join(dir, "ca.crt") })],
  [
    "the kubeconfig",
    (dir: string) => ({
      "certificate-authority-data": readFileSync(join(dir, "ca.crt")).toString("base64"),
    }),
  ],
])("the API server gets a certificate of another CA, known by %s", (_where, ca) => {
  test("the operator goes on", { timeout: 240_000 }, async () => {
    const plane = await ownCluster({ controllerManager: false });
    const [dir, pki] = [folder(), join(plane.dir, "pki")];
    const file = join(dir, "config");
    const user = {
      "client-certificate": join(pki, "admin.crt"),
      "client-key": join(pki, "admin.key"),
    };
    const trust = (crt: string): void => {
      replace(join(dir, "ca.crt"), readFileSync(crt, "utf8"));
      replace(file, config(plane.server, ca(dir), user));
    };
    trust(join(pki, "ca.crt"));
    const where = clusterOf({ kubeconfig: file, bin: plane.bin });
    const site: Site = { where, namespace: "default" };
    const operator = await startOperator({
      namespace: "default",
      modulesDir: modules(),
      kubeconfig: file,
      admin: file,
    });
    await operator.waitReady();
    await resize(site, 2);
    await arrives(site, 2, operator.log);

    const next = join(dir, "next");
    mkdirSync(next);
    writePki(next);
    for (const name of ["apiserver.crt", "apiserver.key"])
      replace(join(pki, name), readFileSync(join(next, name), "utf8"));
    await plane.restartApiServer();
    trust(join(next, "ca.crt"));

    await resize(site, 3);
    await arrives(site, 3, operator.log);
    expect((await operator.http("/readyz")).status).toBe(200);
  });
});
