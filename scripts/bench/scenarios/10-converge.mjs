import { setTimeout as sleep } from "node:timers/promises";
import { writeModules } from "../modules.mjs";

const sizes = [
  { count: 20, first: 3500, restart: 800, idle: 110 },
  { count: 100, first: 14_000, restart: 1500, idle: undefined },
];

/** How long after its start an operator with nothing to do counts as idle. */
const SETTLE_MS = 5000;

export default {
  name: "converge",
  title: "first converge, and restart with nothing changed, of 20 and of 100 modules",
  async run(bench) {
    const figures = [];
    for (const size of sizes) figures.push(...(await measure(bench, size)));
    return figures;
  },
};

async function measure(bench, { count, first, restart, idle }) {
  const { helm, taken } = bench.counting();
  const options = { namespace: await bench.namespace(), modulesDir: writeModules(bench.dir(), count), helm };
  const one = await bench.start(options);
  const firstMs = await one.readyMs();
  const firstRuns = taken();
  await one.operator.stop();
  taken();
  const two = await bench.start(options);
  const restartMs = await two.readyMs();
  await sleep(SETTLE_MS);
  const { resident, peak } = bench.memory(two.operator);
  const restartRuns = taken();
  await two.operator.stop();
  return [
    { what: `${count} modules: first converge`, value: firstMs, unit: "ms", target: first },
    { what: `${count} modules: helm processes`, value: firstRuns, unit: "" },
    { what: `${count} modules: restart`, value: restartMs, unit: "ms", target: restart },
    { what: `${count} modules: helm processes at restart`, value: restartRuns, unit: "", target: 0 },
    { what: `${count} modules: resident when idle`, value: resident, unit: "MB", target: idle },
    { what: `${count} modules: resident at most`, value: peak, unit: "MB" },
  ];
}
