import { median } from "../bench.mjs";
import { writeModules } from "../modules.mjs";

const ROUNDS = 10;

export default {
  name: "heal",
  title: "object of a release deleted until it is there again, 20 modules",
  async run(bench) {
    const namespace = await bench.namespace();
    const { readyMs } = await bench.start({ namespace, modulesDir: writeModules(bench.dir(), 20) });
    await readyMs();
    const times = await measure(bench, `/api/v1/namespaces/${namespace}/configmaps`);
    return [
      { what: `median of ${ROUNDS}`, value: median(times), unit: "ms" },
      { what: `worst of ${ROUNDS}`, value: Math.max(...times), unit: "ms", target: 500 },
    ];
  },
};

/** A different object each time: one that keeps going is brought back less and less often. */
async function measure({ api }, path) {
  let added = () => {};
  const end = await api.watch(path, ({ type, object }) => type === "ADDED" && added(object.metadata.name));
  const times = [];
  for (let index = 1; index <= ROUNDS; index += 1) {
    const name = `bench-m${String(index).padStart(3, "0")}`;
    await api.get(`${path}/${name}`);
    const from = performance.now();
    const back = new Promise((resolve) => {
      added = (seen) => seen === name && performance.now() > from && resolve(performance.now());
    });
    await api.send("DELETE", `${path}/${name}`);
    times.push((await back) - from);
  }
  end();
  return times;
}
