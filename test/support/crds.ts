import { cluster, eventually } from "./cluster.ts";

const CRDS = new URL("../../crds/", import.meta.url).pathname;

let installed: Promise<void> | undefined;

/** Installs the operator's own CRDs in the shared cluster and waits until they serve. */
export function installCrds(): Promise<void> {
  return (installed ??= install());
}

async function install(): Promise<void> {
  const { kubectl } = cluster();
  await kubectl(["apply", "--server-side", "--force-conflicts", "-f", CRDS]);
  const names = ["addonmodules", "addonoperators", "modulesources"].map(
    (plural) => `crd/${plural}.addon-operator.io`,
  );
  // Until the server has looked at a CRD it has no conditions, which kubectl takes for an error.
  const wait = () => kubectl(["wait", "--for=condition=Established", "--timeout=30s", ...names]);
  await eventually(wait, "the CRDs serve");
}

/** A CRD of the kind Thing in this group, which each test has for itself. */
export function crdOfThings(group: string, versions: readonly object[]) {
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `things.${group}` },
    spec: {
      group,
      names: { kind: "Thing", plural: "things", singular: "thing" },
      scope: "Namespaced",
      versions,
    },
  };
}
