// A tour on a real control plane: modules installed, configured, switched off and on.
//   npm run demo              stays up until Ctrl-C
//   npm run demo -- --once    checks each step, stops everything and exits 0 or 1
//   … --verbose               shows the operator's log as well
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { bundle } from "./build.mjs";
import { startCluster } from "./control-plane.mjs";
import { tour } from "./demo/tour.mjs";
import { startOperator } from "./operator.mjs";
import { root } from "./setup/versions.mjs";

const known = ["--once", "--verbose"];
const args = process.argv.slice(2);
const once = args.includes("--once");
const verbose = args.includes("--verbose");
const namespace = "addon-operator";
const running = {};
const started = performance.now();

const say = (text) => console.log(text);
const at = () => `${((performance.now() - started) / 1000).toFixed(1)} s`.padStart(7);
const step = (text) => say(`\n\u001b[1m[${at()}] ${text}\u001b[0m`);

async function demo() {
  step("Bundle the operator");
  const { bytes } = await bundle();
  say(`dist/main.js, ${(bytes / 1024 / 1024).toFixed(1)} MiB`);
  step("Start etcd, kube-apiserver and kube-controller-manager");
  running.cluster = await startCluster();
  const { cluster } = running;
  say(`${cluster.server}, everything below ${cluster.dir}`);
  step(`Create the namespace and the ConfigMap ${namespace}, start the operator on examples/`);
  await cluster.kubectl(["create", "namespace", namespace]);
  await cluster.kubectl(["create", "configmap", namespace, "-n", namespace]);
  const log = join(cluster.dir, "operator.log");
  running.operator = await startOperator({
    kubeconfig: cluster.kubeconfig,
    namespace,
    modulesDir: join(root, "examples", "modules"),
    globalHooksDir: join(root, "examples", "global-hooks"),
    bundle: true,
    env: { LOG_TYPE: "text" },
    onLine: (line) => {
      appendFileSync(log, `${line}\n`);
      if (verbose) say(`          ${line}`);
    },
  });
  await running.operator.waitReady();
  await tour({ cluster, operator: running.operator, namespace, step, say });
}

function hints() {
  const { cluster, operator } = running;
  step("It stays up until Ctrl-C. In another terminal:");
  say(`
  export KUBECONFIG=${cluster.kubeconfig}
  export PATH=${join(cluster.bin.kubectl, "..")}:$PATH
  kubectl -n ${namespace} get addonmodules -o wide --watch
  kubectl -n ${namespace} edit configmap ${namespace}       # try: priorityClassesEnabled: "false"
  kubectl -n ${namespace} get addonmodule trust-bundle -o yaml
  kubectl create namespace shop; kubectl label namespace shop guard-rails=true; kubectl -n shop get quota,limits,netpol
  curl -s ${operator.url}/metrics | grep module
  DEBUG_UNIX_SOCKET=${operator.socket} node ${join(root, "dist", "main.js")} queue list
  tail -f ${join(cluster.dir, "operator.log")}
`);
}

let stopping;
/** Stops everything, once; false when the operator did not end as it should. */
function stopAll() {
  stopping ??= (async () => {
    const exit = await running.operator?.stop();
    await running.cluster?.stop();
    return exit === undefined || exit.code === 0;
  })();
  return stopping;
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
  process.on(signal, () => {
    if (stopping) process.exit(130);
    say("\nstopping …");
    void stopAll().finally(() => process.exit(once ? 130 : 0));
  });

async function main() {
  const unknown = args.find((arg) => !known.includes(arg));
  if (unknown) throw new Error(`unknown argument ${unknown}; known: ${known.join(", ")}`);
  await demo();
  if (!once) {
    hints();
    await running.operator.exit;
    throw new Error("the operator ended by itself");
  }
  step("Stop the operator and the control plane");
  if (!(await stopAll())) throw new Error("the operator did not end with 0");
  step("All steps as expected, nothing left running.");
}

try {
  await main();
} catch (error) {
  if (!stopping) {
    console.error(`\n\u001b[1mFAILED: ${error.message}\u001b[0m`);
    if (running.operator) console.error(running.operator.lines.slice(-30).join("\n"));
    process.exitCode = 1;
  }
  await stopAll();
}
