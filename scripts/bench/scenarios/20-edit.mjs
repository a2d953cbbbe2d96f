import { median } from "../bench.mjs";
import { writeModules } from "../modules.mjs";

const EDITS = 10;

export default {
  name: "edit",
  title: "ConfigMap edit until the object has changed in the API, 20 modules",
  async run(bench) {
    const { helm, taken } = bench.counting();
    const namespace = await bench.namespace();
    const { operator, readyMs } = await bench.start({
      namespace,
      modulesDir: writeModules(bench.dir(), 20),
      helm,
    });
    await readyMs();
    taken();
    const times = await measure(bench, operator, `/api/v1/namespaces/${namespace}/configmaps`);
    return [
      { what: `median of ${EDITS}`, value: median(times), unit: "ms", target: 200 },
      { what: `worst of ${EDITS}`, value: Math.max(...times), unit: "ms" },
      { what: "helm processes", value: taken(), unit: "" },
    ];
  },
};

async function measure(bench, operator, path) {
  const { api } = bench;
  let arrived = () => {};
  const end = await api.watch(`${path}?fieldSelector=metadata.name%3Dbench-m010`, ({ object }) =>
    arrived(object.data?.text),
  );
  const times = [];
  for (let index = 0; index < EDITS; index += 1) {
    const text = `edit ${index}`;
    const changed = new Promise(
      (resolve) => (arrived = (seen) => seen === text && resolve(performance.now())),
    );
    const from = performance.now();
    await api.send("PATCH", `${path}/addon-operator`, { data: { benchM010: `text: ${text}\n` } });
    times.push((await changed) - from);
    // The next edit meets an operator at rest, as an edit of a person does.
    await bench.quiet(operator);
  }
  end();
  return times;
}
