// Runs at night: documentation.
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";

import { inPod, printedLines, printedScripts } from "../../scripts/docs-commands.mjs";
import { cluster, freshNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { startOperator } from "../support/operator.ts";

const run = promisify(execFile);

/** Commands for one cluster and all its modules, that other tests type. */
const ELSEWHERE =
  /^kubectl (addon|config|apply -k|delete|create configmap|describe addonmodule priority-classes|patch configmap addon-operator|patch crd|annotate --overwrite addonoperator)/;

const MODULES = { "010-ingress-nginx": "ingressNginx", "020-web": "web" };

function tree(): string {
  const root = mkdtempSync(join(tmpdir(), "docs-commands-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const [dir, key] of Object.entries(MODULES)) {
    const module = join(root, "modules", dir);
    mkdirSync(join(module, "templates"), { recursive: true });
    writeFileSync(join(module, "values.yaml"), `${key}Enabled: true\n`);
    const map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n";
    writeFileSync(join(module, "templates", "map.yaml"), map);
  }
  mkdirSync(join(root, "hooks"));
  mkdirSync(join(root, "bin"));
  symlinkSync(cluster().bin.kubectl, join(root, "bin", "kubectl"));
  return root;
}

/** A source that pages name. The operator of this test follows none. */
function moduleSource(name: string, namespace: string) {
  return {
    apiVersion: "addon-operator.io/v1alpha1",
    kind: "ModuleSource",
    metadata: { name, namespace },
    spec: { registry: "oci://127.0.0.1:1/modules", modules: {} },
  };
}

test(
  "every command for a cluster that the documents print does what it says",
  { timeout: 180_000 },
  async () => {
    const root = tree();
    const namespace = await freshNamespace("typed");
    const places = { modulesDir: join(root, "modules"), globalHooksDir: join(root, "hooks") };
    const operator = await startOperator({ namespace, ...places });
    await operator.waitReady();
    await installCrds();
    await cluster().apply(...["platform", "web"].map((name) => moduleSource(name, namespace)));

    const kubeconfig = join(root, "config");
    cpSync(cluster().kubeconfig, kubeconfig);
    const env = {
      KUBECONFIG: kubeconfig,
      PATH: [join(root, "bin"), process.env["PATH"]].join(delimiter),
      HOME: root,
    };
    const type = async (text: string): Promise<string> => {
      const own = text
        .replaceAll("-n addon-operator ", `-n ${namespace} `)
        .replaceAll(/\bNAME\b/g, "web")
        .replaceAll(/addonmodule[ /]cert-manager/g, "addonmodule/web")
        .replaceAll("'{.status.state}'=Disabled", "'{.status.state}'=Ready");
      const { stdout } = await run("bash", ["-e", "-c", own], { env });
      return stdout;
    };
    await type(`kubectl config set-context --current --namespace=${namespace}`);
    // The mirror comes a moment after the operator is ready.
    for (const module of ["ingress-nginx", "web"])
      await type(`kubectl wait --for=create addonmodule/${module} --timeout=30s`);

    const lines = printedLines()
      // test/integration/first-module.test.ts types that page.
      .filter(({ page }) => page !== "get-started/first-module.md")
      .map((line) => line.text)
      .filter((line) => /^kubectl \w+ \S/.test(line) || line.startsWith("kubectl -n"))
      .filter((line) => !/^kubectl (wait|describe)( --\S+)?$/.test(line))
      .filter((line) => inPod(line) === undefined && !ELSEWHERE.test(line) && !line.includes("$token"));
    expect(lines.length).toBeGreaterThan(10);
    // A wait for what is not there ends with 1, and the line goes on only if it is.
    for (const line of new Set(lines)) await type(line.replace("&& exit 1", "&& exit 1 || true"));

    const scripts = printedScripts();
    expect(scripts.length).toBeGreaterThan(1);
    for (const script of scripts) await type(`${script.text}\ntrue`);
  },
);
