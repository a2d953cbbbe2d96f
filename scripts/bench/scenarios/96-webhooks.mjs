import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { Agent } from "node:https";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { writePki } from "../../control-plane/pki.mjs";
import { freePorts } from "../../control-plane/ports.mjs";
import { eventually } from "../../eventually.mjs";
import { median, percentile } from "../bench.mjs";
import { timesOfEdits } from "../edits.mjs";
import { writeGlobalHook } from "../hooks.mjs";
import { load } from "../load.mjs";
import { nameOf, writeModules } from "../modules.mjs";
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
const EDITS = 5;
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
    const { operator, target, edit } = started;
    const above = await callsAbove(started);
    const editsBefore = await edit();
    const { peak: before } = bench.memory(operator);
    await putCertificate(bench, started.namespace, "PATCH");
    await sleep(Math.max(0, started.readAt + BEFORE_RENEWAL_MS - performance.now()));
    const editing = edit();
    const result = await load({
      rate: RATE,
      timeoutMs: TIMEOUT_MS,
      body: ADMISSION_REVIEW,
      target,
      ends: ({ size }, ms) => ms > LONGEST_MS || (ms >= LOAD_MS && size > 1),
    });
    const editsUnder = await editing;
    const { peak } = bench.memory(operator);
    const lost = operator.lines.filter((line) => line.includes("The lease is lost")).length;
    await operator.stop();
    for (const error of result.errors) process.stderr.write(`webhooks: ${error}\n`);
    return [
      ...above,
      ...rowsOf(result),
      ...delayed(editsBefore, editsUnder),
      ...memoryRows(before, peak),
      leaseRow(lost),
    ];
  },
};

/** The operator with the hook registered. `target()` is where and with which CA the API server calls it at this moment. */
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
  const path = `/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/${name}`;
  const target = async () => {
    const [{ clientConfig }] = (await bench.api.get(path)).webhooks;
    return { url: clientConfig.url, ca: Buffer.from(clientConfig.caBundle, "base64") };
  };
  await eventually(target, "the registration");
  const readAt = performance.now();
  await readyMs();
  await bench.quiet(operator);
  const configMap = `/api/v1/namespaces/${namespace}/configmaps/addon-operator`;
  const key = nameOf(MODULES).replace("-m", "M");
  const edit = () => {
    const patch = (text) => bench.api.send("PATCH", configMap, { data: { [key]: `text: ${text}\n` } });
    return timesOfEdits(bench, { operator, namespace, count: EDITS }, patch);
  };
  return { operator, namespace, dir, hook: join(globalHooksDir, "hook.sh"), target, readAt, edit };
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

function delayed(before, under) {
  const delay = (100 * (median(under) - median(before))) / median(before);
  return [
    { what: "edit of a module without load: median", value: median(before), unit: "ms" },
    { what: `edit of a module under load: median`, value: median(under), unit: "ms" },
    { what: "edit of a module: delay by the load", value: Math.round(delay), unit: "%", target: 20 },
  ];
}

const leaseRow = (lost) => ({ what: "leases that were lost", value: lost, unit: "", target: 0 });

function memoryRows(before, peak) {
  return [
    { what: "resident at most before the load", value: before, unit: "MB" },
    { what: "resident at most", value: peak, unit: "MB", target: 250 },
  ];
}
