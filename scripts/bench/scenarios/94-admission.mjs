import { Agent } from "node:https";
import { freePorts } from "../../control-plane/ports.mjs";
import { eventually } from "../../eventually.mjs";
import { median, percentile } from "../bench.mjs";
import { post } from "../reviews.mjs";
import { tinyKey, writeTiny } from "../tiny.mjs";

const COUNT = 100;
const EDITS = 300;
const KEYS = 20;

export default {
  name: "admission",
  title: `a review of an edit of the ConfigMap, until its answer is there: ${COUNT} modules with schemas`,
  async run(bench) {
    const namespace = await bench.namespace();
    const path = `/api/v1/namespaces/${namespace}/configmaps/addon-operator`;
    const data = Object.fromEntries(numbers(COUNT).map((index) => [tinyKey(index), section(1)]));
    await bench.api.send("PATCH", path, { data });
    const [port] = await freePorts(1);
    const { operator, readyMs } = await bench.start({
      namespace,
      modulesDir: writeTiny(bench.dir(), COUNT, (index) => ({ "openapi/config-values.yaml": schema(index) })),
      args: ["--webhooks", `--webhook-url=https://127.0.0.1:${port}`, `--webhook-port=${port}`],
    });
    await readyMs();
    // An edit of a person meets an operator at rest: labels and statuses of the first converge are written.
    await bench.quiet(operator);
    await bench.apiServerRests();
    const review = await reviewer(bench, namespace);
    const measured = (edit) => timesOf(review, { namespace, data }, edit);
    const valid = await measured((index) => ({ data: { [tinyKey(7)]: section(index) } }));
    const wrong = await measured((index) => ({ data: { [tinyKey(7)]: section(`x${index}`) } }));
    const flag = await measured((index) => ({
      data: { [`${tinyKey(1 + (index % COUNT))}Enabled`]: "false" },
    }));
    const dryRun = await measured((index) => ({ data: { global: `size: ${index}\n` }, dryRun: true }));
    await operator.stop();
    const row = (what, times, target) => ({
      what: `${what}: 95 % of ${EDITS} within`,
      value: percentile(times, 0.95),
      unit: "ms",
      target,
    });
    return [
      { what: `a section: median of ${EDITS}`, value: median(valid), unit: "ms" },
      row("a section", valid, 10),
      row("a wrong section", wrong, 10),
      row("a flag", flag, 10),
      row("a dry run that concerns all modules", dryRun, undefined),
    ];
  },
};

const numbers = (count) => Array.from({ length: count }, (_, index) => index + 1);
const keys = numbers(KEYS).map((index) => `key${index}`);

const section = (value) =>
  `${keys.map((key) => `${key}: ${value}\n`).join("")}ports: [{name: http, port: 80}, {name: https, port: 443}]\n`;

/** No two modules have the same. */
function schema(index) {
  const plain = keys.map((key) => `  ${key}: {type: integer, minimum: 0}\n`).join("");
  const port = "{type: object, required: [name], properties: {name: {type: string}, port: {type: integer}}}";
  const head = "type: object\nadditionalProperties: false\nproperties:\n";
  return `${head}${plain}  own${index}: {type: string, pattern: "^[a-z]+$"}\n  ports: {type: array, items: ${port}}\n`;
}

/** Milliseconds of each review. `edit(index)` gives changed keys. */
async function timesOf(review, { namespace, data }, edit) {
  const object = (texts) => ({ metadata: { name: "addon-operator", namespace }, data: texts });
  const times = [];
  for (const index of numbers(EDITS)) {
    const { data: change, dryRun = false } = edit(index);
    const request = { object: object({ ...data, ...change }), oldObject: object(data), dryRun };
    const from = performance.now();
    await review(request);
    times.push(performance.now() - from);
  }
  return times;
}

/** Calls the operator as the API server does, with one connection that stays open. */
async function reviewer(bench, namespace) {
  const name = `addon-operator-${namespace}-addon-operator-operator`;
  const path = `/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/${name}`;
  const { webhooks } = await eventually(() => bench.api.get(path), "the registration");
  const { url, caBundle } = webhooks.find(({ name }) => name.startsWith("config-map")).clientConfig;
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: Buffer.from(caBundle, "base64") });
  const fixed = {
    uid: "bench",
    operation: "UPDATE",
    kind: { group: "", version: "v1", kind: "ConfigMap" },
    resource: { group: "", version: "v1", resource: "configmaps" },
    name: "addon-operator",
    namespace,
    userInfo: { username: "bench" },
    options: { fieldManager: "bench" },
  };
  return async (edit) => {
    const body = {
      apiVersion: "admission.k8s.io/v1",
      kind: "AdmissionReview",
      request: { ...fixed, ...edit },
    };
    const { response } = JSON.parse(await post(url, agent, JSON.stringify(body)));
    if (typeof response?.allowed !== "boolean") throw new Error("no answer");
  };
}
