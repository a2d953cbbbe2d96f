import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { writeModules } from "../modules.mjs";

const HEALTHY = 20;
const REFUSED = 300;
/** The first tries of what is refused come quickly, one after the other. */
const SETTLE_MS = 60_000;
const IDLE_MS = 120_000;

export default {
  name: "refused",
  title: `two minutes with ${HEALTHY} modules and one of ${REFUSED} objects that can never be created`,
  long: true,
  async run(bench) {
    const healthy = await idle(bench, await bench.namespace());
    const namespace = await bench.namespace();
    const accept = await refuse(bench, namespace);
    const refused = await idle(bench, namespace);
    await accept();
    const beyond = (of) => Number((100 * (refused[of] / healthy[of] - 1)).toFixed(1));
    return [
      { what: "processor where all is well, share of a core", value: healthy.share, unit: "%" },
      {
        what: "processor beyond that",
        value: Number((refused.share - healthy.share).toFixed(2)),
        unit: "%",
        target: 0.5,
      },
      { what: "resident where all is well", value: healthy.resident, unit: "MB" },
      { what: "resident beyond that, share", value: beyond("resident"), unit: "%", target: 10 },
      { what: "highest beyond that, share", value: beyond("peak"), unit: "%", target: 10 },
      { what: "requests to the API server per minute", value: refused.requests, unit: "" },
    ];
  },
};

async function idle(bench, namespace) {
  const modulesDir = writeModules(bench.dir(), HEALTHY);
  writeBig(modulesDir);
  const { operator } = await bench.start({ namespace, modulesDir });
  await sleep(SETTLE_MS);
  const before = { cpu: bench.cpuMs(operator), requests: await requests(operator) };
  await sleep(IDLE_MS);
  const share = Number(((100 * (bench.cpuMs(operator) - before.cpu)) / IDLE_MS).toFixed(2));
  const perMinute = ((await requests(operator)) - before.requests) / (IDLE_MS / 60_000);
  const memory = bench.memory(operator);
  await operator.stop();
  return { share, requests: Math.round(perMinute), ...memory };
}

/** A module that is installed last. */
function writeBig(dir) {
  const home = join(dir, "900-bench-big");
  mkdirSync(join(home, "templates"), { recursive: true });
  appendFileSync(join(dir, "values.yaml"), "benchBigEnabled: true\n");
  writeFileSync(join(home, "Chart.yaml"), "apiVersion: v2\nname: bench-big\nversion: 1.0.0\n");
  const accounts = Array.from(
    { length: REFUSED },
    (_, index) => `apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: big-${index}}\n`,
  );
  writeFileSync(join(home, "templates", "accounts.yaml"), accounts.join("---\n"));
}

/** No ServiceAccount of that namespace is let in; the result takes that back. */
async function refuse({ api }, namespace) {
  const path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
  const name = `refuse-${namespace}`;
  await api.send("POST", path, {
    metadata: { name },
    webhooks: [
      {
        name: "refuse.example.com",
        clientConfig: { url: "https://127.0.0.1:1/" },
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
        rules: [
          { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["serviceaccounts"] },
        ],
        admissionReviewVersions: ["v1"],
        sideEffects: "None",
      },
    ],
  });
  return () => api.send("DELETE", `${path}/${name}`);
}

/** Requests to the API server so far. */
async function requests(operator) {
  const { body } = await operator.http("/metrics");
  const counts = body
    .split("\n")
    .filter((line) => line.startsWith("addon_operator_kubernetes_client_request_result_total{"));
  return counts.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}
