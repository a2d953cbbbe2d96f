import { join } from "node:path";

import { managedByDigest, type ReleasesOptions } from "../../src/helm/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import { Children } from "../../src/base/process/index.ts";
import { Discovery } from "../../src/kube/index.ts";
import type { KubeClient, WatchHub } from "../../src/kube/index.ts";
import { kubeconfigOf } from "./kubeconfig-of.ts";

interface ReleasesLab {
  readonly namespace: string;
  /** The temp directory of the test. */
  readonly root: string;
  readonly client: KubeClient;
  readonly hub: WatchHub;
}

/** The options of an operator's releases with the program `bin` as helm, as the operator itself has them, apart from `change`. */
export function releasesOptions(
  { namespace, root, client, hub }: ReleasesLab,
  bin: string,
  change: Partial<ReleasesOptions> = {},
): ReleasesOptions {
  return {
    children: new Children(),
    client,
    discovery: new Discovery(client),
    hub,
    namespace,
    bin,
    managedBy: managedByDigest(namespace, "addon-operator"),
    timeoutMs: 60_000,
    historyMax: 3,
    validate: false,
    tmpDir: join(root, "tmp"),
    env: { PATH: process.env["PATH"] ?? "" },
    kubeconfig: kubeconfigOf(client, root),
    logger: silentLogger,
    clock: systemClock,
    purge: "owned",
    adopt: "all",
    ...change,
  };
}
