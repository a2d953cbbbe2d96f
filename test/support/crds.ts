import { cluster } from "./cluster.ts";

const CRDS = new URL("../../crds/", import.meta.url).pathname;

/** Installs the operator's own CRDs in the shared cluster and waits until they serve. */
export async function installCrds(): Promise<void> {
  const { kubectl } = cluster();
  await kubectl(["apply", "--server-side", "--force-conflicts", "-f", CRDS]);
  const names = ["addonmodules", "addonoperators"].map((plural) => `crd/${plural}.addon-operator.io`);
  await kubectl(["wait", "--for=condition=Established", "--timeout=30s", ...names]);
}
