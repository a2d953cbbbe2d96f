// The cluster of the demo: a control plane of its own, or one that the user has, which is left as it was found.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { kubectl as runKubectl, startCluster } from "../control-plane.mjs";
import { tools } from "../setup/tools.mjs";
import { demoTools } from "../setup/versions.mjs";
import { agreed } from "./ask.mjs";

/** On all that the demo itself makes in a cluster; what its releases make goes with them. */
const label = "addon-operator-demo";
const crds = ["addonmodules", "addonoperators", "modulesources"];

/**
 * Resolves to what the tour works on: `{ dir, server, bin, kubeconfig, kubectl, createNamespace, stop }`;
 * `createNamespace(name, objects)` creates these in it as well. The control plane of its own has no controller manager, so that namespaces are not deleted there.
 */
export async function openCluster({ kubeconfig, ...how }) {
  const cluster = kubeconfig
    ? await usersCluster(kubeconfig, how)
    : await startCluster({ controllerManager: false, tools: demoTools });
  let creating = Promise.resolve();
  const createNamespace = (name, inIt = []) => {
    const metadata = { name, labels: { [label]: "true" } };
    const items = [{ apiVersion: "v1", kind: "Namespace", metadata }, ...inIt];
    // Checked by the server alone: kubectl would fetch the schemas of all kinds first.
    const create = ["create", "--validate=false", "-f", "-"];
    creating = cluster.kubectl(create, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
    return creating;
  };
  // A signal may come while a namespace is being created: it is cleaned up once it is there.
  const stop = () => creating.catch(() => {}).then(() => cluster.stop());
  return { ...cluster, createNamespace, stop };
}

/** The current context of that file alone, whatever becomes of the file meanwhile. */
async function usersCluster(file, { yes, namespace, say }) {
  const bin = tools(process.env, ["kubectl", "helm"]);
  if (!existsSync(file)) throw new Error(`--kubeconfig ${file}: the file does not exist`);
  const view = ["config", "view", "--minify", "--flatten", "--raw", "-o", "json"];
  const config = JSON.parse(await runKubectl({ bin, kubeconfig: file }, view));
  const dir = mkdtempSync(join(tmpdir(), "demo-"));
  const kubeconfig = join(dir, "kubeconfig");
  writeFileSync(kubeconfig, JSON.stringify(config), { mode: 0o600 });
  const kubectl = (args, input) => runKubectl({ bin, kubeconfig }, args, input);
  const own = { dir, bin, kubeconfig, kubectl, server: config.clusters[0].cluster.server };
  try {
    const left = await checked(own, namespace);
    const where = `${config["current-context"]}, ${own.server}`;
    if (!yes) await mustAgree(where);
    if (left) await cleanUp(own, namespace, say);
  } catch (error) {
    rmSync(dir, { recursive: true, force: true });
    throw error;
  }
  const stop = async () => {
    await cleanUp(own, namespace, say);
    rmSync(dir, { recursive: true, force: true });
  };
  return { ...own, stop };
}

/** Refuses a cluster where something of the demo's names is somebody else's; true when an earlier demo left something. */
async function checked({ kubectl }, namespace) {
  const [allowed] = (await kubectl(["auth", "can-i", "*", "*", "-A"]).catch(({ message }) => message)).split(
    "\n",
  );
  if (allowed.trim() !== "yes") throw new Error(`the demo needs all permissions in the cluster: ${allowed}`);
  const namespaces = await kubectl([
    "get",
    "namespace",
    "-o",
    `jsonpath={range .items[*]}{.metadata.name}={.metadata.labels.${label}} {end}`,
  ]);
  const mine = namespaces.includes(`${namespace}=true`);
  const other = [namespace, "shop", "team-orders", "team-billing"].find((name) =>
    namespaces.split(" ").includes(`${name}=`),
  );
  if (other)
    throw new Error(`namespace ${other} exists and does not belong to the demo. The demo changed nothing`);
  const found = await kubectl(["get", "crd", "-o", "name"]);
  const crd = crds.find((name) => found.includes(`/${name}.`));
  if (crd && !mine)
    throw new Error(
      `the cluster has the CRD ${crd}, so an operator can be active there. The demo changed nothing`,
    );
  return mine || /\b(shop|team-orders|team-billing)=true/.test(namespaces);
}

async function mustAgree(where) {
  if (!process.stdin.isTTY)
    throw new Error(
      "the demo writes to this cluster, and cannot ask without a terminal. To allow it, use --yes",
    );
  const what =
    "the namespaces addon-operator and shop, CRDs, PriorityClasses, and an annotation on new namespaces";
  if (
    !(await agreed(`The demo writes to ${where}: ${what}. At the end, it removes these objects. Continue?`))
  )
    throw new Error("the demo changed nothing");
}

/** Needs no operator, so it works whatever has become of one. */
async function cleanUp({ bin, kubeconfig, kubectl }, namespace, say) {
  say("Removing the objects of the demo in the cluster …");
  const query = [
    "get",
    "secret",
    "-n",
    namespace,
    "-l",
    "owner=helm",
    "-o",
    "jsonpath={.items[*].metadata.labels.name}",
  ];
  const releases = new Set((await kubectl(query)).split(" ").filter((name) => name !== ""));
  for (const release of releases)
    await execa(bin.helm, ["uninstall", release, "--no-hooks", "-n", namespace, "--kubeconfig", kubeconfig]);
  await kubectl(["delete", "namespace", "-l", `${label}=true`, "--timeout=120s"]);
  const names = (await kubectl(["get", "crd", "-o", "name"])).split("\n");
  const own = names.filter((name) => crds.some((crd) => name.includes(`/${crd}.`)));
  if (own.length > 0) await kubectl(["delete", ...own, "--timeout=60s"]);
}
