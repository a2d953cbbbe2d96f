import { writeGlobalHook } from "../hooks.mjs";

const COUNT = 10_000;
const PARALLEL = 40;

export default {
  name: "objects",
  title: "10,000 ConfigMaps of 9 KB watched: time to ready and memory",
  async run(bench) {
    const namespace = await bench.namespace();
    await fill(bench.api, `/api/v1/namespaces/${namespace}/configmaps`);
    const full = await measure(bench, namespace, { keepFullObjectsInMemory: true });
    const filtered = await measure(bench, namespace, {
      keepFullObjectsInMemory: false,
      jqFilter: ".metadata.name",
    });
    return [
      { what: "full objects: ready", value: full.readyMs, unit: "ms", target: 5000 },
      { what: "full objects: resident at most", value: full.peak, unit: "MB", target: 350 },
      { what: "filter results only: ready", value: filtered.readyMs, unit: "ms", target: 5000 },
      { what: "filter results only: resident at most", value: filtered.peak, unit: "MB", target: 200 },
    ];
  },
};

async function fill(api, path) {
  const data = { text: "0123456789abcdef".repeat(576) };
  let next = 0;
  const worker = async () => {
    while (next < COUNT)
      await api.send("POST", path, {
        metadata: { name: `object-${(next += 1)}`, labels: { bench: "yes" } },
        data,
      });
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
}

async function measure(bench, namespace, options) {
  const selected = { matchLabels: { bench: "yes" } };
  const where = { namespace: { nameSelector: { matchNames: [namespace] } }, labelSelector: selected };
  const config = {
    configVersion: "v1",
    kubernetes: [{ apiVersion: "v1", kind: "ConfigMap", ...where, ...options }],
  };
  const { operator, readyMs } = await bench.start({
    namespace,
    ...writeGlobalHook(bench.dir(), { config, body: "exit 0" }),
  });
  const took = await readyMs();
  const { peak } = bench.memory(operator);
  await operator.stop();
  return { readyMs: took, peak };
}
