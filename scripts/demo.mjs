// A tour on a real cluster: modules installed, configured, switched off and on. Plain Node 20, no dependencies.
//   npm run demo                            on a control plane of its own; stays up until Ctrl-C
//   npm run demo -- --once                  checks each step, stops everything and exits 0 or 1
//   npm run demo -- --kubeconfig FILE       on the cluster of that file; asks before it writes, and cleans up
//   … --yes                                 does not ask
//   … --sources                             runs src/ and writes no bundle; so also where the checkout cannot be written
//   … --verbose                             shows the operator's log as well
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { offered, parseOptions } from "./demo/ask.mjs";
import { setup } from "./setup.mjs";
import { modernNode } from "./setup/tools.mjs";
import { demoTools } from "./setup/versions.mjs";

async function main() {
  const args = process.argv.slice(2);
  const { once, kubeconfig } = parseOptions(args);
  const chosen = kubeconfig ?? (once || !process.stdin.isTTY ? undefined : await offered());
  await setup(chosen ? ["kubectl", "helm"] : demoTools);
  const more = chosen && !kubeconfig ? [`--kubeconfig=${chosen}`] : [];
  // By a Node of its own, since this one may be too old.
  const script = fileURLToPath(new URL("demo/run.mjs", import.meta.url));
  const child = spawn(modernNode(), [script, ...args, ...more], { stdio: "inherit" });
  // A terminal sends Ctrl-C to both: the demo ends in its own time.
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.once("exit", (code) => process.exit(code ?? 1));
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
