import { setTimeout as sleep } from "node:timers/promises";
import { writeModules } from "../modules.mjs";

const COUNT = 1000;
/** How long after its start an operator with nothing to do counts as idle. */
const SETTLE_MS = 5000;

export default {
  name: "thousand",
  title: "1,000 modules: restart with nothing changed (the installs before it take minutes)",
  long: true,
  async run(bench) {
    const { helm, taken } = bench.counting();
    const options = {
      namespace: await bench.namespace(),
      modulesDir: writeModules(bench.dir(), COUNT),
      helm,
    };
    const one = await bench.start(options);
    const firstMs = await one.readyMs();
    await one.operator.stop();
    taken();
    const two = await bench.start(options);
    const restartMs = await two.readyMs();
    const cpu = bench.cpuMs(two.operator);
    await sleep(SETTLE_MS);
    const { resident, peak } = bench.memory(two.operator);
    await two.operator.stop();
    return [
      { what: "first converge", value: firstMs, unit: "ms" },
      { what: "restart", value: restartMs, unit: "ms", target: 8000 },
      { what: "processor time until restarted", value: cpu, unit: "ms" },
      { what: "helm processes at restart", value: taken(), unit: "", target: 0 },
      { what: "resident when idle", value: resident, unit: "MB" },
      { what: "resident at most", value: peak, unit: "MB", target: 300 },
    ];
  },
};
