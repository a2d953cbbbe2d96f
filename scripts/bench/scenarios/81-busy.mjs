import { setTimeout as sleep } from "node:timers/promises";
import { shHook } from "../tiny.mjs";
import { nameOf, writeModules } from "../modules.mjs";

const COUNT = 12;
const MINUTES = 4;
/** An edit and two events in each. */
const SECOND = 1000;

export default {
  name: "busy",
  title: `${COUNT} modules under an edit and two events a second for ${MINUTES} minutes: memory`,
  long: true,
  async run(bench) {
    const namespace = await bench.namespace();
    const selected = { matchLabels: { bench: "busy" } };
    const binding = { apiVersion: "v1", kind: "ConfigMap", labelSelector: selected };
    const hook = shHook("kubernetes", "echo an event", [binding]);
    const files = (name) => (name === nameOf(1) ? { "hooks/events": hook } : {});
    const modulesDir = writeModules(bench.dir(), COUNT, { files });
    const { operator, readyMs } = await bench.start({ namespace, modulesDir });
    await readyMs();
    await bench.quiet(operator);
    const before = bench.memory(operator).resident;
    const samples = [];
    for (let turn = 0; turn < MINUTES * 60; turn += 1) {
      const next = sleep(SECOND);
      await disturb(bench.api, namespace, turn);
      await next;
      samples.push(bench.memory(operator).resident);
    }
    const { peak } = bench.memory(operator);
    const cpu = bench.cpuMs(operator);
    await operator.stop();
    const lastMinute = samples.slice(-60);
    return [
      { what: "resident before", value: before, unit: "MB", target: 100 },
      { what: "resident after one minute", value: samples[59], unit: "MB" },
      { what: "resident in the last minute: most", value: Math.max(...lastMinute), unit: "MB", target: 140 },
      { what: "resident at most", value: peak, unit: "MB" },
      { what: "processor time", value: cpu, unit: "ms" },
    ];
  },
};

async function disturb(api, namespace, turn) {
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const index = 1 + (turn % COUNT);
  const key = nameOf(index).replace("-m", "M");
  const metadata = { name: `event-${turn}`, labels: { bench: "busy" } };
  await Promise.all([
    api.send("PATCH", `${path}/addon-operator`, { data: { [key]: `text: edit ${turn}\n` } }),
    api.send("POST", path, { metadata, data: { text: "first" } }),
  ]);
  await api.send("PATCH", `${path}/${metadata.name}`, { data: { text: "second" } });
}
