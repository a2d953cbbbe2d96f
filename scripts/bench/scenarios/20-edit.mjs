import { median } from "../bench.mjs";
import { EDITS, timesOfEdits } from "../edits.mjs";
import { writeModules } from "../modules.mjs";

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
    const path = `/api/v1/namespaces/${namespace}/configmaps/addon-operator`;
    const times = await timesOfEdits(bench, { operator, namespace }, (text) =>
      bench.api.send("PATCH", path, { data: { benchM010: `text: ${text}\n` } }),
    );
    return [
      { what: `median of ${EDITS}`, value: median(times), unit: "ms", target: 200 },
      { what: `worst of ${EDITS}`, value: Math.max(...times), unit: "ms" },
      { what: "helm processes", value: taken(), unit: "" },
    ];
  },
};
