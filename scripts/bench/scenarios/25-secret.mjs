import { median } from "../bench.mjs";
import { EDITS, timesOfEdits } from "../edits.mjs";
import { nameOf, writeModules } from "../modules.mjs";

const SOURCE = "valuesFrom: [{kind: Secret, name: bench-text, key: text, path: /text}]\n";

export default {
  name: "secret",
  title:
    "Change of a Secret with values, and of the ConfigMap, until the object has changed in the API, 20 modules",
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
    const configMap = `/api/v1/namespaces/${namespace}/configmaps/addon-operator`;
    // What the ConfigMap says counts more than what the Secret says.
    const edits = await timesOfEdits(bench, { operator, namespace }, (text) =>
      bench.api.send("PATCH", configMap, { data: { benchM010: `text: ${text}\n` } }),
    );
    return [
      { what: `Secret, median of ${EDITS}`, value: median(times), unit: "ms", target: 200 },
      { what: `Secret, worst of ${EDITS}`, value: Math.max(...times), unit: "ms" },
      { what: `ConfigMap, median of ${EDITS}`, value: median(edits), unit: "ms", target: 200 },
      { what: "difference of the medians", value: median(times) - median(edits), unit: "ms" },
    ];
  },
};
