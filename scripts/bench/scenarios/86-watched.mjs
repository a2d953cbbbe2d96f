import { setTimeout as sleep } from "node:timers/promises";
import { writeModules } from "../modules.mjs";

const MODULES = 300;
/** Beside the two that each module of the benchmark has. */
const MORE = 8;
/** After the first converge the garbage goes and the last labels are written. */
const SETTLE_MS = 30_000;
const IDLE_MS = 60_000;

const further = (index) => `apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-${index}"}
data: {text: "${"some text ".repeat(20)}"}
`;
const MANIFEST = Array.from({ length: MORE }, (_, index) => further(index)).join("---\n");

export default {
  name: "watched",
  title: `${MODULES} releases with ${MODULES * (MORE + 2)} objects, a minute with nothing to do`,
  long: true,
  async run(bench) {
    const files = () => ({ "templates/more.yaml": MANIFEST });
    const modulesDir = writeModules(bench.dir(), MODULES, { files });
    const { operator, readyMs } = await bench.start({ namespace: await bench.namespace(), modulesDir });
    const first = await readyMs();
    await sleep(SETTLE_MS);
    const before = bench.cpuMs(operator);
    await sleep(IDLE_MS);
    const share = before === undefined ? undefined : (100 * (bench.cpuMs(operator) - before)) / IDLE_MS;
    const { resident, peak } = bench.memory(operator);
    await operator.stop();
    return [
      { what: "first converge", value: first, unit: "ms" },
      { what: "processor, share of a core", value: share && Number(share.toFixed(2)), unit: "%", target: 1 },
      { what: "resident", value: resident, unit: "MB" },
      { what: "resident at most", value: peak, unit: "MB" },
    ];
  },
};
