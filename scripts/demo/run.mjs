// The demo itself, when all that it needs is in place: `scripts/demo.mjs` gets it.
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { bundle } from "../build.mjs";
import { programFile, startOperator } from "../operator.mjs";
import { isWritable } from "../setup/npm.mjs";
import { root } from "../setup/versions.mjs";
import { parseOptions } from "./ask.mjs";
import { openCluster } from "./clusters.mjs";
import { requirements } from "./requirements.mjs";
import { prepareSources, sources } from "./sources.mjs";
import { prepareTenants, tenants, tenantsModules } from "./tenants.mjs";
import { tour } from "./tour.mjs";

const namespace = "addon-operator";
const running = {};
const started = performance.now();
const { once, kubeconfig, yes, verbose, ...options } = parseOptions();
/** A checkout that cannot be written takes no bundle. */
const fromSource = options["from-source"] || !isWritable(root);
/** Tests that run the bundle have made it before. */
const program = fromSource ? programFile() : join(root, "dist", "main.js");

const say = (text) => console.log(text);
const inMiB = (bytes) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
const at = () => `${((performance.now() - started) / 1000).toFixed(1)} s`.padStart(7);
const step = (text) => say(`\n\u001b[1m[${at()}] ${text}\u001b[0m`);

/** What differs between the tours: the directories, the flags, what is there before, and the steps. */
function tourOf(cluster) {
  const modulesDir = join(root, "examples", "modules");
  const globalHooksDir = join(root, "examples", "global-hooks");
  if (options.tenants)
    return {
      shows: "examples/tenants/",
      modulesDir: tenantsModules,
      args: ["--module-queues=own", "--service-account-namespaces=team-*"],
      prepare: () => prepareTenants({ cluster, say }),
      steps: tenants,
    };
  if (options.sources)
    return { shows: "an empty modules directory", ...prepareSources(cluster), steps: sources };
  if (options.requirements)
    return {
      shows: "examples/",
      modulesDir,
      globalHooksDir,
      args: ["--module-queues=own"],
      steps: requirements,
    };
  return { shows: "examples/", modulesDir, globalHooksDir, args: [], steps: tour };
}

async function demo() {
  const bundled = fromSource ? undefined : bundle();
  // Thrown again below, when there is a cluster that can be stopped.
  bundled?.catch(() => {});
  step(kubeconfig ? `Check the cluster of ${kubeconfig}` : "Start etcd and kube-apiserver");
  running.cluster = await openCluster({ kubeconfig, yes, namespace, say });
  if (bundled) say(`The bundle of the operator is dist/main.js, ${inMiB((await bundled).bytes)}`);
  const { cluster } = running;
  say(`The API server is ${cluster.server}, and all files are in ${cluster.dir}`);
  const chosen = tourOf(cluster);
  step(`Create the namespace and the ConfigMap ${namespace}, and start the operator with ${chosen.shows}`);
  const configMap = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: namespace, namespace } };
  await cluster.createNamespace(namespace, [configMap]);
  await chosen.prepare?.();
  const start = () => startFor(cluster, chosen);
  await start();
  const restart = async () => {
    await running.operator.stop();
    await start();
  };
  await chosen.steps({
    cluster,
    get operator() {
      return running.operator;
    },
    restart,
    namespace,
    step,
    say,
  });
}

async function startFor(cluster, { modulesDir, globalHooksDir, args }) {
  const log = join(cluster.dir, "operator.log");
  running.operator = await startOperator({
    kubeconfig: cluster.kubeconfig,
    namespace,
    modulesDir,
    globalHooksDir,
    bundle: program,
    args: ["--watch-dirs", ...args],
    // Hooks of teams call kubectl.
    env: { LOG_TYPE: "text", PATH: `${join(cluster.bin.kubectl, "..")}:${process.env.PATH}` },
    onLine: (line) => {
      appendFileSync(log, `${line}\n`);
      if (verbose) say(`          ${line}`);
    },
  });
  await running.operator.waitReady();
}

function hints() {
  const { cluster, operator } = running;
  const path = [...(fromSource ? [] : [join(root, "dist")]), join(cluster.bin.kubectl, ".."), "$PATH"].join(
    ":",
  );
  const command = fromSource ? `${process.execPath} ${program}` : "addon-operator";
  step("The operator runs until you press Control+C. In another terminal, run:");
  say(`
  export KUBECONFIG=${cluster.kubeconfig}
  export PATH=${path}
  export DEBUG_UNIX_SOCKET=${operator.socket}

  kubectl -n ${namespace} get addonmodules -o wide --watch
  kubectl -n ${namespace} edit configmap ${namespace}   # for example priorityClassesEnabled: "false"
  ${command} status   # print the problems and their causes
  ${command} ui       # open the web page
  ${command} --help
  # The operator applies changes of files in ${join(root, "examples", "modules")} within a second.
  kubectl create namespace blog; kubectl label namespace blog guard-rails=true
  kubectl -n blog get quota,limits,netpol
  curl -s ${operator.url}/metrics | grep module
  tail -f ${join(cluster.dir, "operator.log")}
`);
}

let stopping;
let interrupted = false;
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
    if (!running.cluster || stopping) process.exit(130);
    interrupted = true;
    say("\nStopping …");
    void stopAll().then(
      () => process.exit(once ? 130 : 0),
      (error) => (notStopped(error), process.exit(1)),
    );
  });

function notStopped({ message }) {
  console.error(`\u001b[1mThe demo could not stop and remove everything: ${message}\u001b[0m`);
  if (kubeconfig)
    console.error("Run the same command again. It first removes the objects of the earlier demo.");
}

async function main() {
  await demo();
  if (!once) {
    hints();
    await running.operator.exit;
    throw new Error("the operator ended unexpectedly");
  }
  step(kubeconfig ? "Stop the operator and remove its objects" : "Stop the operator and the control plane");
  if (!(await stopAll())) throw new Error("the exit code of the operator was not 0");
  step("All steps succeeded, and no process remains.");
}

try {
  await main();
} catch (error) {
  if (!interrupted) await giveUp(error);
}

async function giveUp({ message }) {
  console.error(`\n\u001b[1mFAILED: ${message}\u001b[0m`);
  if (running.operator) console.error(running.operator.lines.slice(-30).join("\n"));
  process.exitCode = 1;
  await stopAll().catch(notStopped);
}
