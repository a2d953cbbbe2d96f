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
    return { shows: "no directory of modules", ...prepareSources(cluster), steps: sources };
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
  step(kubeconfig ? `Look at the cluster of ${kubeconfig}` : "Start etcd and kube-apiserver");
  running.cluster = await openCluster({ kubeconfig, yes, namespace, say });
  if (bundled) say(`the operator, bundled: dist/main.js, ${inMiB((await bundled).bytes)}`);
  const { cluster } = running;
  say(`${cluster.server}, everything below ${cluster.dir}`);
  const chosen = tourOf(cluster);
  step(`Create the namespace and the ConfigMap ${namespace}, start the operator on ${chosen.shows}`);
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
  step("It stays up until Ctrl-C. In another terminal:");
  say(`
  export KUBECONFIG=${cluster.kubeconfig}
  export PATH=${path}
  export DEBUG_UNIX_SOCKET=${operator.socket}

  kubectl -n ${namespace} get addonmodules -o wide --watch
  kubectl -n ${namespace} edit configmap ${namespace}   # try: priorityClassesEnabled: "false"
  ${command} status   # what is wrong, and why
  ${command} ui       # the page, in a browser
  ${command} --help
  edit a file below ${join(root, "examples", "modules")}: it is applied within a second
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
    say("\nstopping …");
    void stopAll().then(
      () => process.exit(once ? 130 : 0),
      (error) => (notStopped(error), process.exit(1)),
    );
  });

function notStopped({ message }) {
  console.error(`\u001b[1mNot everything could be stopped and removed: ${message}\u001b[0m`);
  if (kubeconfig) console.error("Run the same command again: it first removes what an earlier one left.");
}

async function main() {
  await demo();
  if (!once) {
    hints();
    await running.operator.exit;
    throw new Error("the operator ended by itself");
  }
  step(kubeconfig ? "Stop the operator, remove what it made" : "Stop the operator and the control plane");
  if (!(await stopAll())) throw new Error("the operator did not end with 0");
  step("All steps as expected, nothing left running.");
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
