import { setTimeout as sleep } from "node:timers/promises";
import { writeModules } from "../modules.mjs";

/** After the first converge the garbage goes and the last labels are written. */
const SETTLE_MS = 10_000;
const STEADY_MS = 120_000;

export default {
  name: "steady",
  title: "two minutes with 100 modules and nothing to do",
  long: true,
  async run(bench) {
    const { helm, taken } = bench.counting();
    const modulesDir = writeModules(bench.dir(), 100);
    const { operator, readyMs } = await bench.start({ namespace: await bench.namespace(), modulesDir, helm });
    await readyMs();
    await sleep(SETTLE_MS);
    taken();
    const before = bench.cpuMs(operator);
    await sleep(STEADY_MS);
    const share = before === undefined ? undefined : (100 * (bench.cpuMs(operator) - before)) / STEADY_MS;
    const { resident } = bench.memory(operator);
    await operator.stop();
    return [
      {
        what: "processor, share of a core",
        value: share && Number(share.toFixed(2)),
        unit: "%",
        target: 0.5,
      },
      { what: "helm processes", value: taken(), unit: "", target: 0 },
      { what: "resident", value: resident, unit: "MB" },
    ];
  },
};
