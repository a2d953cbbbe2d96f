#!/usr/bin/env node
// The chart and the image on a cluster with nodes: installs, rolls out and heals a module, upgrades, uninstalls.
//   KUBECONFIG=… npm run e2e -- [--image REPOSITORY:TAG] [--host-network] [--api HOST:PORT] [--port PORT] [--helm3] [--ha] [--keep]
// The image must be known to the nodes. --host-network and --api are for nodes without Pod network or kube-proxy.
// --ha runs two replicas and takes the leader away; with --host-network the second is a release of its own, on another port.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { inPod, printedLines, printsArchive } from "./docs-commands.mjs";
import { eventually } from "./eventually.mjs";
import { setup } from "./setup.mjs";
import { tools } from "./setup/tools.mjs";
import { root } from "./setup/versions.mjs";

const { values: flags } = parseArgs({
  options: {
    image: { type: "string", default: "addon-operator:dev" },
    "host-network": { type: "boolean", default: false },
    api: { type: "string" },
    port: { type: "string", default: "9115" },
    ha: { type: "boolean", default: false },
    helm3: { type: "boolean", default: false },
    keep: { type: "boolean", default: false },
  },
});
const helmName = flags.helm3 ? "helm3" : "helm";
const toolNames = ["kubectl", helmName];
await setup(toolNames, process.env, { dev: false });
const bin = tools(process.env, toolNames);
const namespace = `addons-e2e-${randomBytes(3).toString("hex")}`;
const chart = join(root, "charts", "addon-operator");
const release = "operator";
const lease = {
  duration: 15,
  values: { enabled: true, leaseDuration: "15s", leaseRenewDeadline: "10s", leaseRetryPeriod: "2s" },
};

const kubectl = async (...args) => (await execa(bin.kubectl, ["-n", namespace, ...args])).stdout.trim();
const helmBin = bin[helmName];
const helm = async (...args) => (await execa(helmBin, ["-n", namespace, ...args])).stdout.trim();
const json = async (...args) => JSON.parse(await kubectl(...args, "-o", "json"));

/** Runs a step and says how long it took. */
async function step(name, action) {
  const start = performance.now();
  const said = await action();
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`${seconds.padStart(6)} s  ${name}${said === undefined ? "" : `: ${said}`}`);
}

function must(condition, message) {
  if (!condition) throw new Error(message);
}

/** A module tree as one ConfigMap and the volume that lays it out again. */
const files = ["Chart.yaml", "values.yaml", "templates/deployment.yaml"].map((name) => `010-web/${name}`);
const keyOf = (path) => path.replaceAll("/", "__");

function chartValues(extra) {
  const [repository, tag] = [flags.image.replace(/:[^:/]*$/, ""), flags.image.replace(/^.*:/, "")];
  const [host, port] = (flags.api ?? "").split(":");
  const env = host ? { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } : {};
  const web = { image: flags.image, hostNetwork: flags["host-network"] };
  return {
    image: { repository, tag },
    hostNetwork: flags["host-network"],
    port: Number(flags.port),
    extraEnv: Object.entries(env).map(([name, value]) => ({ name, value })),
    config: { values: { web } },
    modules: { dir: "/from-config-map" },
    extraVolumes: [
      {
        name: "modules",
        configMap: { name: "modules", items: files.map((path) => ({ key: keyOf(path), path })) },
      },
    ],
    extraVolumeMounts: [{ name: "modules", mountPath: "/from-config-map" }],
    ...(flags.ha ? { ha: lease.values, replicas: flags["host-network"] ? 1 : 2 } : {}),
    ...extra,
  };
}

async function install(extra, name = release) {
  const args = ["upgrade", "--install", name, chart, "--wait", "--timeout", "3m", "-f", "-"];
  await execa(helmBin, ["-n", namespace, ...args], { input: JSON.stringify(chartValues(extra)) });
}

const pods = async (label) => (await json("get", "pods", "-l", label)).items;
const operatorLabel = `app.kubernetes.io/instance=${release},app.kubernetes.io/name=addon-operator`;

/** The second replica, where two Pods of one Deployment cannot share the node's ports. */
async function installSecond() {
  const names = { config: { create: false }, addonOperator: { create: false }, rbac: { create: true } };
  await install({ ...names, port: Number(flags.port) + 1 }, "second");
}

/** The Pod that leads, and which of its processes. */
const holder = async () => (await json("get", "lease", "addon-operator-addon-operator")).spec.holderIdentity;
const podOf = (identity) => identity.split("/")[0];

/** Seconds until another process holds the lease than the one that did: a follower, or a container that came back. */
async function takeOver(leave) {
  const before = await holder();
  const start = performance.now();
  await leave(podOf(before));
  const next = await eventually(
    async () => {
      const now = await holder();
      return now !== "" && now !== before && now;
    },
    "another leader",
    { timeoutMs: 90_000 },
  );
  const seconds = (performance.now() - start) / 1000;
  await kubectl("wait", `pod/${podOf(next)}`, "--for=condition=Ready", "--timeout=60s");
  return seconds;
}

/** Simulates a crash: the operator ends at once, without a last message to the API server. */
const crash = (pod) =>
  kubectl("exec", pod, "--", "bash", "-c", "kill -9 $(cut -d' ' -f1 /proc/1/task/1/children)");

/** Milliseconds from the start of the process to its first line, with empty caches. */
async function firstLine() {
  const { metadata } = await runningPod();
  const script =
    "export NODE_COMPILE_CACHE=$(mktemp -d) ADDON_OPERATOR_TMP_DIR=$(mktemp -d) ADDON_OPERATOR_LISTEN_PORT=0; s=$(date +%s%N); " +
    "addon-operator start 2>&1 | { read -r line; e=$(date +%s%N); echo $(( (e - s) / 1000000 )) ms; }";
  return kubectl("exec", metadata.name, "--", "timeout", "5", "bash", "-c", script).catch((error) =>
    error.stdout.trim(),
  );
}

/** Types what docs/ say to type in the operator's Pod, word for word but for names. */
async function typeInPod() {
  const lines = [...new Set(printedLines().flatMap(({ text }) => inPod(text) ?? []))];
  must(lines.length > 0, "docs/ print none");
  for (const line of lines) {
    const words = line.replaceAll("NAME", "web").split(" ");
    const typed = ["exec", `deploy/${release}-addon-operator`, "--", ...words];
    if (printsArchive(line)) {
      const { stdout } = await execa(bin.kubectl, ["-n", namespace, ...typed], { encoding: "buffer" });
      must(Buffer.from(stdout).readUInt16BE() === 0x1f8b, `${line}: no gzip archive`);
      continue;
    }
    const said = await kubectl(...typed);
    must(said.includes("web") || said.includes("enabled"), `${line}: ${said}`);
  }
  return lines.join("; ");
}

async function runningPod() {
  return (await pods(operatorLabel)).find(({ metadata }) => metadata.deletionTimestamp === undefined);
}

/** Seconds from the start of the operator's container to the Pod's Ready. */
async function startToReady() {
  const pod = await runningPod();
  const started = Date.parse(pod.status.containerStatuses[0].state.running.startedAt);
  const ready = pod.status.conditions.find(({ type }) => type === "Ready");
  must(ready?.status === "True", "the Pod is not ready");
  return `${(Date.parse(ready.lastTransitionTime) - started) / 1000} s from container start to Ready`;
}

async function webRevisions() {
  const { items } = await json("get", "secrets", "-l", "owner=helm,name=web");
  return items.map(({ metadata }) => metadata.name).toSorted();
}

async function twoReplicas() {
  if (flags["host-network"]) await step("second replica", installSecond);
  const revisions = await webRevisions();
  const reported = (seconds, most) => {
    must(seconds <= most, `took ${seconds} s, more than ${most} s`);
    return `${seconds.toFixed(1)} s until another leads`;
  };
  await step("leader's Pod deleted", async () =>
    reported(await takeOver((pod) => kubectl("delete", "pod", pod, "--wait=false")), 20),
  );
  await step("leader crashed", async () => reported(await takeOver(crash), lease.duration + 2 + 3));
  await kubectl("wait", "addonoperator/addon-operator", "--for=condition=Ready", "--timeout=60s");
  const after = await webRevisions();
  must(`${after}` === `${revisions}`, `module upgraded: ${revisions} -> ${after}`);
  if (flags["host-network"]) await helm("uninstall", "second", "--wait");
}

async function scenario() {
  await step("namespace and modules", async () => {
    await execa(bin.kubectl, ["create", "namespace", namespace]);
    const source = (path) => `--from-file=${keyOf(path)}=${join(root, "test", "e2e", "modules", path)}`;
    await kubectl("create", "configmap", "modules", ...files.map(source));
  });
  await step("chart installed, Pod Ready", async () => {
    await install({});
    return startToReady();
  });
  await step("AddonOperator Ready", async () => {
    await kubectl("wait", "addonoperator/addon-operator", "--for=condition=Ready", "--timeout=120s");
    return kubectl("get", "addonmodule", "web", "-o", "jsonpath={.status.state}");
  });
  await step("first line of the log", firstLine);
  await step("commands of the documents in the Pod", typeInPod);
  await step("module rolled out", () =>
    kubectl("rollout", "status", "deployment/web", "--timeout=120s").then(() => {}),
  );
  await step("deleted Deployment healed", async () => {
    const before = await json("get", "deployment", "web");
    await kubectl("delete", "deployment", "web");
    const back = async () =>
      (await json("get", "deployment", "web").catch(() => undefined))?.metadata.uid ?? before.metadata.uid;
    await eventually(async () => must((await back()) !== before.metadata.uid, "not back"), {
      timeoutMs: 60_000,
    });
    await kubectl("wait", "addonmodule/web", "--for=jsonpath={.status.state}=Ready", "--timeout=60s");
    await kubectl("rollout", "status", "deployment/web", "--timeout=60s");
  });
  const revisions = await webRevisions();
  await step("chart upgraded, module untouched", async () => {
    await install({ podAnnotations: { "e2e/round": "2" } });
    await kubectl("wait", "addonoperator/addon-operator", "--for=condition=Ready", "--timeout=60s");
    const after = await webRevisions();
    must(`${after}` === `${revisions}`, `module upgraded: ${revisions} -> ${after}`);
    return startToReady();
  });
  if (flags.ha) await twoReplicas();
  await step("helm test", () => helm("test", release).then(() => {}));
  await step("uninstalled", async () => {
    await helm("uninstall", release, "--wait", "--timeout", "2m");
    await kubectl("wait", "pods", "-l", operatorLabel, "--for=delete", "--timeout=90s");
    await json("get", "deployment", "web");
    must((await webRevisions()).length > 0, "the module's release is gone");
    await execa(bin.kubectl, ["get", "crd", "addonmodules.addon-operator.io"]);
    return "the module's release and the CRDs stay";
  });
}

try {
  await scenario();
  console.log("e2e passed");
} catch (error) {
  process.exitCode = 1;
  console.error(`${error.stderr ?? ""}${error.message}`);
  console.error(
    await kubectl("logs", `deployment/${release}-addon-operator`, "--tail=20").catch(() => "no log"),
  );
  console.error(await kubectl("get", "pods,addonmodules,addonoperators", "-o", "wide").catch(() => ""));
} finally {
  if (!flags.keep)
    await execa(bin.kubectl, ["delete", "namespace", namespace, "--wait=false"]).catch(() => {});
}
