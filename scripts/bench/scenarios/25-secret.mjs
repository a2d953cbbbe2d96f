import { median } from "../bench.mjs";
import { EDITS, timesOfEdits } from "../edits.mjs";
import { nameOf, writeModules } from "../modules.mjs";

const SOURCE = "valuesFrom: [{kind: Secret, name: bench-text, key: text, path: /text}]\n";

export default {
  name: "secret",
  title: "Change of a Secret with values until the object has changed in the API, 20 modules",
  async run(bench) {
    const namespace = await bench.namespace();
    const path = `/api/v1/namespaces/${namespace}/secrets`;
    await bench.api.send("POST", path, { metadata: { name: "bench-text" }, stringData: { text: "first" } });
    const files = (name) => (name === nameOf(10) ? { "addon.yaml": SOURCE } : {});
    const modulesDir = writeModules(bench.dir(), 20, { files });
    const { operator, readyMs } = await bench.start({ namespace, modulesDir });
    await readyMs();
    const times = await timesOfEdits(bench, { operator, namespace }, (text) =>
      bench.api.send("PATCH", `${path}/bench-text`, { stringData: { text } }),
    );
    return [
      { what: `median of ${EDITS}`, value: median(times), unit: "ms", target: 200 },
      { what: `worst of ${EDITS}`, value: Math.max(...times), unit: "ms" },
    ];
  },
};
