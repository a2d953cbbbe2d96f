import { join } from "node:path";

import { PrivateKubeconfig, type KubeClient } from "../../src/kube/index.ts";
import { StableTempDir } from "../../src/base/process/index.ts";

/** The kubeconfig of helm, as the operator makes it below a temp directory in `root`. */
export function kubeconfigOf(client: KubeClient, root: string): PrivateKubeconfig {
  return new PrivateKubeconfig(client, new StableTempDir(join(root, "tmp"), "kube"), "helm");
}
