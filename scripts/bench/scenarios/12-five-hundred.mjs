import { setTimeout as sleep } from "node:timers/promises";
import { writeModules } from "../modules.mjs";

const COUNT = 500;
/** How long after the first converge, or the start, an operator with nothing to do counts as idle: it still writes statuses before. */
const SETTLE_MS = 30_000;

export default {
  name: "five-hundred",
  title: `${COUNT} modules: memory during and after the first converge, and a restart with nothing changed`,
  long: true,
  async run(bench) {
    const options = { namespace: await bench.namespace(), modulesDir: writeModules(bench.dir(), COUNT) };
    const first = await round(bench, options);
    // The restart is measured, not what the API server still does with 500 new objects of each kind.
    await bench.apiServerRests();
    const restart = await round(bench, options);
    return [
      { what: "first converge", value: first.readyMs, unit: "ms" },
      { what: "first converge: resident at most", value: first.peak, unit: "MB", target: 250 },
      { what: "first converge: resident when idle", value: first.resident, unit: "MB", target: 150 },
      { what: "restart", value: restart.readyMs, unit: "ms", target: 2000 },
      { what: "restart: processor time", value: restart.cpu, unit: "ms" },
      { what: "restart: resident at most", value: restart.peak, unit: "MB" },
      { what: "restart: resident when idle", value: restart.resident, unit: "MB", target: 150 },
    ];
  },
};

async function round(bench, options) {
  const { operator, readyMs: ready } = await bench.start(options);
  const readyMs = await ready();
  const cpu = bench.cpuMs(operator);
  await bench.quiet(operator);
  await sleep(SETTLE_MS);
  const { resident, peak } = bench.memory(operator);
  await operator.stop();
  return { readyMs, cpu, resident, peak };
}
