import { homedir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { startCluster } from "../../scripts/control-plane.mjs";
import { tools } from "../../scripts/setup/tools.mjs";
import { root } from "../../scripts/setup/versions.mjs";
import type { Tools } from "../../scripts/control-plane.mjs";

declare module "vitest" {
  interface ProvidedContext {
    cluster: { kubeconfig: string; bin: Tools };
  }
}

/** One control plane for the whole run; with USE_EXISTING_CLUSTER=true the one of the current kubeconfig. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (process.env["USE_EXISTING_CLUSTER"] === "true") {
    const kubeconfig = process.env["KUBECONFIG"] ?? join(homedir(), ".kube", "config");
    project.provide("cluster", { kubeconfig, bin: tools() });
    return async () => {};
  }
  const own = await startCluster();
  // As in a cluster that has had them for a while: a server lets the first object of a new kind wait for two seconds.
  await own.kubectl(["apply", "--server-side", "--field-manager=helm", "-f", join(root, "crds")]);
  project.provide("cluster", { kubeconfig: own.kubeconfig, bin: own.bin });
  return () => own.stop();
}
