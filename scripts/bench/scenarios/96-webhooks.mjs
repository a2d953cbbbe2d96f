import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { Agent } from "node:https";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { writePki } from "../../control-plane/pki.mjs";
import { freePorts } from "../../control-plane/ports.mjs";
import { eventually } from "../../eventually.mjs";
import { median, percentile, processorMs } from "../bench.mjs";
import { timesOfEdits } from "../edits.mjs";
import { writeGlobalHook } from "../hooks.mjs";
import { load, registeredTarget } from "../load.mjs";
import { nameOf, writeModules } from "../modules.mjs";
import { plainServer } from "../plain-server.mjs";
import { post } from "../reviews.mjs";

const MODULES = 10;
const GROUPS = 10;
const CALLS = 10;
const RATE = 1000;
const LOAD_MS = 10_000;
/** The default of the API server. */
const TIMEOUT_MS = 10_000;
/** A Secret of others is read again after a minute, and its certificate presented ten seconds later; the load begins before. */
const BEFORE_RENEWAL_MS = 64_000;
/** The load ends then even if the certificate is not renewed. */
const LONGEST_MS = 20_000;
const EDITS = 10;
const SECRET = "bench-certificate";

const BINDING = {
  name: "bench.example.com",
  failurePolicy: "Ignore",
  namespace: { labelSelector: { matchLabels: { bench: "nobody" } } },
  rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["UPDATE"] }],
};
const BODY = `[[ -e "$NOTES/context" ]] || cp "$BINDING_CONTEXT_PATH" "$NOTES/context"
grep -q '"name":"web"' "$BINDING_CONTEXT_PATH"
echo '{"allowed": true}' >"$ADMISSION_RESPONSE_PATH"`;

const ADMISSION_REVIEW = JSON.stringify({
  apiVersion: "admission.k8s.io/v1",
  kind: "AdmissionReview",
  request: {
    uid: "bench",
    operation: "UPDATE",
    kind: { group: "", version: "v1", kind: "ConfigMap" },
    resource: { group: "", version: "v1", resource: "configmaps" },
    name: "web",
    namespace: "default",
    userInfo: { username: "bench" },
    object: { metadata: { name: "web", namespace: "default" }, data: { text: "some text ".repeat(100) } },
  },
});

export default {
  name: "webhooks",
  title: `a validating hook: one call above the hook's own time; ${RATE} calls a second, and a new certificate`,
  long: true,
  async run(bench) {
    const started = await start(bench);
    const { operator, registered, edits } = started;
    const above = await callsAbove(started);
    const alone = await edits({ count: EDITS });
    const { peak: before } = bench.memory(operator);
    await putCertificate(bench, started.namespace, "PATCH");
    await sleep(Math.max(0, started.readAt + BEFORE_RENEWAL_MS - performance.now()));
    const target = { kubeconfig: bench.cluster.kubeconfig, path: registered };
    const under = await loaded(started, { target, certificates: 2 });
    const { peak } = bench.memory(operator);
    const control = await controlled(bench, started);
    const lost = operator.lines.filter((line) => line.includes("The lease is lost")).length;
    await operator.stop();
    for (const error of under.errors) process.stderr.write(`webhooks: ${error}\n`);
    return [
      ...above,
      ...rowsOf(under),
      ...delays({ alone, control: control.edits, under: under.edits }),
      ...processorRows(under),
      ...memoryRows(before, peak),
      leaseRow(lost),
    ];
  },
};

/** What becomes of a load of `target`, the times of edits meanwhile, and the processor time of the operator. */
async function loaded({ operator, edits }, options) {
  let isLoading = true;
  const loading = load({
    rate: RATE,
    timeoutMs: TIMEOUT_MS,
    body: ADMISSION_REVIEW,
    leastMs: LOAD_MS,
    mostMs: LONGEST_MS,
    ...options,
  }).finally(() => (isLoading = false));
  const from = processorMs(operator);
  const [outcome, times] = await Promise.all([loading, edits({ count: Infinity, goesOn: () => isLoading })]);
  const to = processorMs(operator);
  const used = from && { own: to.own - from.own, children: to.children - from.children };
  return { ...outcome, edits: times, used };
}

/** The same load of another server, which refuses everything: it takes as much of the machine, and nothing of the operator. */
async function controlled(bench, started) {
  const dir = bench.dir();
  writePki(dir);
  const [cert, key, ca] = ["apiserver.crt", "apiserver.key", "ca.crt"].map((name) =>
    readFileSync(join(dir, name), "utf8"),
  );
  const { port, stop } = await plainServer({ cert, key });
  bench.cleanup(stop);
  return loaded(started, { target: { url: `https://127.0.0.1:${port}/`, ca }, certificates: 1 });
}

/** The operator with the hook registered. `target()` is where, and with which CA, the API server calls it at this moment. */
async function start(bench) {
  const namespace = await bench.namespace();
  await putCertificate(bench, namespace, "POST");
  const [port] = await freePorts(1);
  const dir = bench.dir();
  const { globalHooksDir } = writeGlobalHook(dir, {
    config: { configVersion: "v1", kubernetesValidating: [BINDING] },
    body: BODY,
  });
  const { operator, readyMs } = await bench.start({
    namespace,
    globalHooksDir,
    modulesDir: writeModules(bench.dir(), MODULES),
    args: [
      `--webhook-url=https://127.0.0.1:${port}`,
      `--webhook-port=${port}`,
      `--webhook-cert-secret=${SECRET}`,
    ],
  });
  const name = `addon-operator-${namespace}-addon-operator-hooks`;
  const registered = `/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/${name}`;
  const target = () => registeredTarget(bench.api, registered);
  await eventually(target, "the registration");
  const readAt = performance.now();
  await readyMs();
  await bench.quiet(operator);
  const configMap = `/api/v1/namespaces/${namespace}/configmaps/addon-operator`;
  const key = nameOf(MODULES).replace("-m", "M");
  const patch = (text) => bench.api.send("PATCH", configMap, { data: { [key]: `text: ${text}\n` } });
  const edits = (limits) => timesOfEdits(bench, { operator, namespace, restMs: 0, ...limits }, patch);
  return {
    operator,
    namespace,
    dir,
    hook: join(globalHooksDir, "hook.sh"),
    target,
    registered,
    readAt,
    edits,
  };
}

/** A certificate by a CA of its own, as someone else would issue it. */
async function putCertificate(bench, namespace, method) {
  const dir = bench.dir();
  writePki(dir);
  const base64 = (file) => readFileSync(join(dir, file)).toString("base64");
  const data = {
    "tls.crt": base64("apiserver.crt"),
    "tls.key": base64("apiserver.key"),
    "ca.crt": base64("ca.crt"),
  };
  const path = `/api/v1/namespaces/${namespace}/secrets`;
  await bench.api.send(method, method === "POST" ? path : `${path}/${SECRET}`, {
    metadata: { name: SECRET },
    data,
  });
}

/** Calls one after the other, in turn with runs of the hook by a shell with the same files. */
async function callsAbove({ dir, hook, target }) {
  const { url, ca } = await target();
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca });
  const review = () => post(`${url}?timeout=${TIMEOUT_MS}ms`, agent, ADMISSION_REVIEW);
  await review();
  const [calls, own] = [[], []];
  for (let group = 0; group < GROUPS; group += 1) {
    own.push(ownTime(dir, hook));
    for (let index = 0; index < CALLS; index += 1) {
      const from = performance.now();
      await review();
      calls.push(performance.now() - from);
    }
  }
  agent.destroy();
  return [
    { what: "hook by hand: median", value: median(own), unit: "ms" },
    { what: "call: median", value: median(calls), unit: "ms" },
    { what: "call above the hook: median", value: median(calls) - median(own), unit: "ms", target: 15 },
    { what: "call: 95th percentile", value: percentile(calls, 0.95), unit: "ms" },
  ];
}

/** Milliseconds of one run of the hook. The shell that starts it is small, so that starting costs next to nothing. */
function ownTime(dir, hook) {
  const env = {
    ...process.env,
    BINDING_CONTEXT_PATH: join(dir, "context"),
    ADMISSION_RESPONSE_PATH: join(dir, "response"),
  };
  const loop = `for run in $(seq ${CALLS}); do : >"$ADMISSION_RESPONSE_PATH"; "$0"; done`;
  const from = performance.now();
  execFileSync("/bin/sh", ["-c", loop, hook], { env });
  return (performance.now() - from) / CALLS;
}

function rowsOf({ sent, seconds, answered, refused, late, failed, times, certificates }) {
  const what = `${RATE} a second`;
  return [
    { what: `${what}: sent a second`, value: Math.round(sent / seconds), unit: "" },
    { what: `${what}: answered by the hook a second`, value: Math.round(answered / seconds), unit: "" },
    { what: `${what}: refused`, value: refused, unit: "" },
    { what: `${what}: late`, value: late, unit: "", target: 0 },
    { what: `${what}: without an answer`, value: failed, unit: "", target: 0 },
    {
      what: `${what}: certificates that were not presented`,
      value: 2 - certificates.size,
      unit: "",
      target: 0,
    },
    { what: `${what}: median`, value: median(times), unit: "ms" },
    { what: `${what}: the slowest`, value: Math.max(...times), unit: "ms", target: TIMEOUT_MS },
  ];
}

/** The generator and the control plane take their share of the machine under any load, so the control counts. */
function delays({ alone, control, under }) {
  const more = (than) => Math.round((100 * (median(under) - median(than))) / median(than));
  const what = "edit of a module";
  return [
    { what: `${what} without load: median`, value: median(alone), unit: "ms" },
    {
      what: `${what} while another server refuses the load: median of ${control.length}`,
      value: median(control),
      unit: "ms",
    },
    { what: `${what} under load: median of ${under.length}`, value: median(under), unit: "ms" },
    { what: `${what}: delay against no load`, value: more(alone), unit: "%" },
    {
      what: `${what}: delay against the load of another server`,
      value: more(control),
      unit: "%",
      target: 20,
    },
  ];
}

/** Shares of one processor. */
function processorRows({ seconds, cpuMs, used }) {
  const row = (whose, ms) => ({
    what: `${RATE} a second: share of a processor, ${whose}`,
    value: ms && Math.round(ms / seconds / 10),
    unit: "%",
  });
  return [
    row("the load itself", cpuMs),
    row("the operator", used?.own),
    row("its hooks and helm", used?.children),
  ];
}

const leaseRow = (lost) => ({ what: "leases that were lost", value: lost, unit: "", target: 0 });

function memoryRows(before, peak) {
  return [
    { what: "resident at most before the load", value: before, unit: "MB" },
    { what: "resident at most", value: peak, unit: "MB", target: 250 },
  ];
}
