import { randomBytes } from "node:crypto";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inject, onTestFinished } from "vitest";
import { kubectl as runKubectl, startCluster } from "../../scripts/control-plane.mjs";
import type { ClusterOptions, ControlPlane, Tools } from "../../scripts/control-plane.mjs";
import { eventually } from "../../scripts/eventually.mjs";
import { Api } from "./api.ts";
import { withoutKubectl } from "./kubectl.ts";

export { eventually };
export type { ControlPlane, Tools };

/** The control plane all integration tests share, or the user's own cluster (USE_EXISTING_CLUSTER=true). */
export interface Cluster {
  /** A kubeconfig file with every right. */
  readonly kubeconfig: string;
  readonly bin: Tools;
  /** Resolves to stdout; rejects with stderr. The commonest commands are done without its process. */
  readonly kubectl: (args: readonly string[], input?: string) => Promise<string>;
  /** `kubectl … -o json`, parsed. */
  readonly json: <T>(args: readonly string[]) => Promise<T>;
  readonly apply: (...objects: readonly object[]) => Promise<void>;
}

const isUsersOwn = (): boolean => process.env["USE_EXISTING_CLUSTER"] === "true";

export function cluster(): Cluster {
  return clusterOf(inject("cluster"));
}

/** The same helpers for a control plane of one's own. */
export function clusterOf({ kubeconfig, bin }: { kubeconfig: string; bin: Tools }): Cluster {
  const api = Api.of(kubeconfig);
  const run = (args: readonly string[], input?: string) => runKubectl({ bin, kubeconfig }, args, input);
  const kubectl = async (args: readonly string[], input?: string) => {
    if (args[0] === "wait") return waitForState(run, args);
    return (input === undefined ? await withoutKubectl(api, args) : undefined) ?? run(args, input);
  };
  return {
    kubeconfig,
    bin,
    kubectl,
    json: async <T>(args: readonly string[]) => JSON.parse(await kubectl([...args, "-o", "json"])) as T,
    apply: async (...objects) => {
      const left: object[] = [];
      for (const each of objects) if (!(await api.applyFirst(each as never))) left.push(each);
      const list = { apiVersion: "v1", kind: "List", items: left };
      if (left.length > 0) await kubectl(["apply", "-f", "-"], JSON.stringify(list));
    },
  };
}

/**
 * `kubectl wait` ends at once if an object does not exist. The operator creates its objects soon after its start, so this waits for
 * their creation first, as a script of a user does (docs/reference/status.md, "What a script may rely on").
 */
async function waitForState(run: Cluster["kubectl"], args: readonly string[]): Promise<string> {
  try {
    return await run(args);
  } catch (error) {
    const waitsForState = args.some((arg) => /^--for=(condition|jsonpath)/.test(arg));
    if (!waitsForState || !String(error).includes("(NotFound)")) throw error;
  }
  await run([...args.filter((arg) => !arg.startsWith("--for=")), "--for=create"]);
  return run(args);
}

/** The helm under test: helm 4, or what the variable HELM names (`helm3`). */
export function helmUnderTest(): string {
  return cluster().bin[process.env["HELM"] === "helm3" ? "helm3" : "helm"];
}

/** Creates a namespace nobody else uses, until the current test ends. */
export async function freshNamespace(prefix: string): Promise<string> {
  const name = await makeNamespace(prefix);
  onTestFinished(() => deleteNamespace(name));
  return name;
}

/** The same for `beforeAll`: the caller ends it with `deleteNamespace`. */
export async function makeNamespace(prefix: string): Promise<string> {
  const name = `${prefix}-${randomBytes(4).toString("hex")}`;
  await cluster().apply({ apiVersion: "v1", kind: "Namespace", metadata: { name } });
  return name;
}

/**
 * Deletes it from a cluster of the user's own. The suite's control plane is thrown away as a whole: to empty a namespace
 * takes a third of a second of a processor.
 */
export async function deleteNamespace(name: string): Promise<void> {
  if (isUsersOwn())
    await cluster().kubectl(["delete", "namespace", name, "--wait=false", "--ignore-not-found"]);
}

/** A control plane of the test's own, to be stopped, restarted and broken; ended with the current test. */
export async function ownCluster(options?: ClusterOptions): Promise<ControlPlane> {
  const own = await startCluster(options);
  onTestFinished(() => own.stop());
  return own;
}

/** A kubeconfig that has only the rights of a ServiceAccount, which is created if need be. */
export async function kubeconfigOf(namespace: string, serviceAccount: string): Promise<string> {
  const { kubectl, apply } = cluster();
  await apply({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: serviceAccount, namespace } });
  return kubeconfigWith((await kubectl(["create", "token", serviceAccount, "-n", namespace])).trim());
}

/** A kubeconfig with a token. */
export async function kubeconfigWith(token: string): Promise<string> {
  const { kubectl, kubeconfig } = cluster();
  const file = join(mkdtempSync(join(tmpdir(), "kubeconfig-")), "config");
  writeFileSync(file, await kubectl(["config", "view", "--raw", "--minify", `--kubeconfig=${kubeconfig}`]));
  await runKubectl({ bin: cluster().bin, kubeconfig: file }, [
    "config",
    "set-credentials",
    "limited",
    `--token=${token}`,
  ]);
  await runKubectl({ bin: cluster().bin, kubeconfig: file }, [
    "config",
    "set-context",
    "--current",
    "--user=limited",
  ]);
  return file;
}
