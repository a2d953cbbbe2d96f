// Runs at night: documentation.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { FakeApi } from "../support/fake-api.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/guides/running.md, "Credentials": one process works with one cluster.

interface Config {
  readonly clusters: readonly { cluster: object }[];
  readonly users: readonly { user: object }[];
}

/** Two files as people have them: the one with the contexts dev and prod, the other one with clusters and users. */
async function kubeconfigs(dir: string, namespace: string) {
  const view = ["config", "view", "--raw", "--minify", "-o", "json", `--kubeconfig=${cluster().kubeconfig}`];
  const real = JSON.parse(await cluster().kubectl(view)) as Config;
  const prod = await FakeApi.start();
  onTestFinished(() => prod.close());
  const [contexts, rest] = [join(dir, "contexts"), join(dir, "rest")];
  const use = (current: string): void =>
    writeFileSync(
      contexts,
      JSON.stringify({
        "current-context": current,
        contexts: ["dev", "prod"].map((name) => ({
          name,
          context: { cluster: name, user: name, namespace },
        })),
      }),
    );
  use("dev");
  writeFileSync(
    rest,
    JSON.stringify({
      clusters: [
        { name: "dev", cluster: real.clusters[0]?.cluster },
        { name: "prod", cluster: { server: prod.url } },
      ],
      users: ["dev", "prod"].map((name) => ({ name, user: name === "dev" ? real.users[0]?.user : {} })),
    }),
  );
  return { prod, use, list: `${contexts}:${rest}` };
}

test("neither another current context nor a kubeconfig of hooks diverts helm and hooks", async () => {
  const { kubectl } = cluster();
  const namespace = await freshNamespace("one");
  const lab = hookLab("one-cluster");
  const { prod, use, list } = await kubeconfigs(lab.dir, namespace);
  lab.file("modules/site/Chart.yaml", "apiVersion: v2\nname: site\nversion: 1.0.0\n");
  lab.file(
    "modules/site/templates/map.yaml",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\ndata: {size: {{ .Values.site.size | quote }}}\n",
  );
  lab.file("modules/site/values.yaml", "site:\n  size: 1\n");
  const seen = join(lab.dir, "seen");
  // What tools of clouds do: they make their cluster the current one, wherever hooks have a kubeconfig.
  lab.file(
    "modules/site/hooks/divert.sh",
    `#!/bin/sh
if [ "$1" = --config ]; then echo '{"configVersion": "v1", "beforeHelm": 1}'; exit; fi
cat "$KUBECONFIG" >>'${seen}'; echo >>'${seen}'
mkdir -p "$HOME/.kube"
for file in "$HOME/.kube/config" "$KUBECONFIG"; do
  echo '{"clusters":[{"name":"prod","cluster":{"server":"${prod.url}"}}],"users":[{"name":"u","user":{}}],"contexts":[{"name":"prod","context":{"cluster":"prod","user":"u"}}],"current-context":"prod"}' >"$file"
done
`,
  );
  const home = join(lab.dir, "home");
  mkdirSync(home);
  const env = { HOME: home, HELM_KUBECONTEXT: "prod" };
  const operator = await startOperator({
    namespace,
    modulesDir: lab.modulesDir,
    kubeconfig: list,
    env,
    admin: cluster().kubeconfig,
  });
  await operator.waitReady();
  const arrives = (size: number): Promise<unknown> =>
    eventually(
      async () => {
        const read = ["get", "configmap", "site", "-n", namespace, "-o", "jsonpath={.data.size}"];
        expect(await kubectl(read)).toBe(String(size));
      },
      `size ${size}`,
      { timeoutMs: 60_000, context: () => operator.log().slice(-3000) },
    );
  const resize = (size: number): Promise<string> => {
    const patch = JSON.stringify({ data: { siteEnabled: "true", site: `size: ${size}\n` } });
    return kubectl(["patch", "configmap", "addon-operator", "-n", namespace, "--type=merge", "-p", patch]);
  };
  await resize(2);
  await arrives(2);
  use("prod");
  await resize(3);
  await arrives(3);
  await kubectl([
    "patch",
    "configmap",
    "addon-operator",
    "-n",
    namespace,
    "--type=merge",
    "-p",
    '{"data":{"siteEnabled":"false"}}',
  ]);
  await eventually(async () => {
    expect(await kubectl(["get", "configmap", "-n", namespace, "site", "--ignore-not-found"])).toBe("");
  }, "the release is deleted");
  expect(prod.requests).toEqual([]);
  const kubeconfigsSeen = readFileSync(seen, "utf8").trim().split("\n");
  expect(kubeconfigsSeen.length).toBeGreaterThan(1);
  for (const each of kubeconfigsSeen)
    expect(JSON.parse(each)).toMatchObject({ "current-context": "dev", contexts: [{ name: "dev" }] });
}, 240_000);

test("a helm that reports success and leaves no revision here has failed", async () => {
  const { kubectl } = cluster();
  const namespace = await freshNamespace("one");
  const lab = hookLab("one-cluster");
  lab.file("modules/site/Chart.yaml", "apiVersion: v2\nname: site\nversion: 1.0.0\n");
  lab.file("modules/site/values.yaml", "siteEnabled: true\n");
  const helm = join(lab.dir, "helm");
  const script = `#!/bin/sh\ncase "$1" in upgrade) exit 0 ;; *) exec '${helmUnderTest()}' "$@" ;; esac\n`;
  writeFileSync(helm, script, { mode: 0o755 });
  await startOperator({ namespace, modulesDir: lab.modulesDir, args: [`--helm-bin=${helm}`] });
  const read = ["get", "addonmodule", "site", "-n", namespace, "-o", "jsonpath={.status.conditions}"];
  await eventually(async () => {
    expect(await kubectl(read)).toMatch(
      /helm upgrade site: helm reports success, but https:.* shows no trace/,
    );
  }, "the failure is told");
});
