// What the tests, the demo and the benchmark run against, and where it is kept. Plain Node 20, no dependencies.
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const versions = { kubernetes: "1.37.0", etcd: "3.7.0", helm: "4.3.0", helm3: "3.22.0" };

/** The oldest and the newest Kubernetes that the program is for, and the one before: what `npm run test:compat` runs the tests on. */
export const compatible = { oldest: "1.30.14", previous: "1.36.2", newest: versions.kubernetes };

/** The tools by the name of their file in the cache. */
export const toolNames = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "helm", "helm3"];
/** What a control plane without a controller manager needs, and an operator on it: all that the demo needs. */
export const demoTools = ["etcd", "kube-apiserver", "kubectl", "helm"];

/** The top of this checkout. */
export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** One directory per user, shared by every checkout. */
export function cacheRoot(env = process.env, homeOfUser = homedir) {
  return join(env.XDG_CACHE_HOME || join(env.HOME || known(homeOfUser), ".cache"), "addon-operator");
}

/** A user that the machine does not know has none, as in many containers. */
function known(homeOfUser) {
  try {
    return homeOfUser();
  } catch {
    throw new Error("There is no home directory, which npm and the tools need: export HOME=DIR");
  }
}

/** The directory of the binaries; another version of any of them is another directory. */
export function cacheDir(env = process.env) {
  const { kubernetes, etcd, helm, helm3 } = versions;
  return join(cacheRoot(env), `bin-k${kubernetes}-e${etcd}-h${helm}-h${helm3}`);
}
