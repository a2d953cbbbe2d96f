// A tour on a real cluster: modules installed, configured, switched off and on. Plain Node 20, no dependencies.
//   npm run demo                            on a control plane of its own; stays up until Ctrl-C
//   npm run demo -- --once                  checks each step, stops everything and exits 0 or 1
//   npm run demo -- --kubeconfig FILE       on the cluster of that file; asks before it writes, and cleans up
//   … --yes                                 does not ask
//   … --from-source                         runs src/ and writes no bundle; so also where the checkout cannot be written
//   … --requirements                        shows another tour: each module in a queue of its own, one of them broken
//   … --tenants                             shows another tour: modules of two teams, each with an account of its own
//   … --sources                             shows another tour: a signed module from a registry, whose channel moves
//   … --verbose                             shows the operator's log as well
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
