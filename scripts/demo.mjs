// A tour on a real cluster that installs, configures, disables, and enables modules. Plain Node 20, no dependencies.
//   npm run demo                            on a separate control plane, until Control+C
//   npm run demo -- --once                  checks each step, stops everything, and exits with 0 or 1
//   npm run demo -- --kubeconfig FILE       on the cluster of this file. Asks before it writes, and cleans up
//   … --yes                                 does not ask
//   … --from-source                         runs src/ and writes no bundle, so it also works in a read-only checkout
//   … --requirements                        another tour: each module has a separate queue, and one module is broken
//   … --tenants                             another tour: modules of two teams, each with its own ServiceAccount
//   … --sources                             another tour: a signed module from a registry, whose channel moves
//   … --verbose                             also prints the operator's log
import { offered, parseOptions } from "./demo/ask.mjs";
import { runScript } from "./run.mjs";
import { setup } from "./setup.mjs";
import { demoTools } from "./setup/versions.mjs";

async function main() {
  const args = process.argv.slice(2);
  const { once, kubeconfig } = parseOptions(args);
  const chosen = kubeconfig ?? (once || !process.stdin.isTTY ? undefined : await offered());
  await setup(chosen ? ["kubectl", "helm"] : demoTools, process.env, { dev: false });
  const more = chosen && !kubeconfig ? [`--kubeconfig=${chosen}`] : [];
  runScript("demo/run.mjs", [...args, ...more]);
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
