import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { median } from "../bench.mjs";
import { EDITS, timesOfEdits } from "../edits.mjs";
import { nameOf, writeModules } from "../modules.mjs";

/**
 * What a person would run in place of the operator: `helm template` and `helm upgrade` of the same chart with the same kind
 * of edit, one after the other. Returns a function that does so once and resolves to the ms that it took.
 */
async function editByHand(bench) {
  const namespace = await bench.namespace();
  const dir = bench.dir();
  const chart = join(writeModules(dir, 10), `010-${nameOf(10)}`);
  const values = join(dir, "by-hand.yaml");
  const env = { ...process.env, KUBECONFIG: bench.cluster.kubeconfig };
  const helm = (...args) =>
    execa(
      bench.cluster.bin.helm,
      [...args, nameOf(10), chart, "--namespace", namespace, "--values", values],
      { env },
    );
  const edit = async (text) => {
    writeFileSync(values, `benchM010:\n  text: ${text}\n`);
    const from = performance.now();
    await helm("template");
    await helm("upgrade", "--install");
    return performance.now() - from;
  };
  // The installation itself is no edit.
  await edit("first");
  return edit;
}

export default {
  name: "edit",
  title:
    "ConfigMap edit until the object has changed in the API, 20 modules; and helm by hand in the same minute",
  async run(bench) {
    const { helm, taken } = bench.counting();
    const namespace = await bench.namespace();
    const { operator, readyMs } = await bench.start({
      namespace,
      modulesDir: writeModules(bench.dir(), 20),
      helm,
    });
    await readyMs();
    const byHand = await editByHand(bench);
    taken();
    const path = `/api/v1/namespaces/${namespace}/configmaps/addon-operator`;
    const times = await timesOfEdits(bench, { operator, namespace }, (text) =>
      bench.api.send("PATCH", path, { data: { benchM010: `text: ${text}\n` } }),
    );
    const processes = taken();
    const timesByHand = [];
    for (let index = 0; index < EDITS; index += 1) timesByHand.push(await byHand(`edit ${index}`));
    return [
      { what: `median of ${EDITS}`, value: median(times), unit: "ms", target: 200 },
      { what: `worst of ${EDITS}`, value: Math.max(...times), unit: "ms" },
      { what: "helm template and helm upgrade by hand, median", value: median(timesByHand), unit: "ms" },
      { what: "times helm by hand", value: median(times) / median(timesByHand), unit: "", target: 1.1 },
      { what: "helm processes", value: processes, unit: "" },
    ];
  },
};
