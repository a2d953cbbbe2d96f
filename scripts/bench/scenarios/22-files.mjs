import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { median } from "../bench.mjs";
import { EDITS, timesOfEdits } from "../edits.mjs";
import { nameOf, writeModules } from "../modules.mjs";

export default {
  name: "files",
  title: "template edited on disk until the object has changed in the API, 20 modules, --watch-dirs",
  async run(bench) {
    const { helm, taken } = bench.counting();
    const namespace = await bench.namespace();
    const modulesDir = writeModules(bench.dir(), 20);
    const { operator, readyMs } = await bench.start({ namespace, modulesDir, helm, args: ["--watch-dirs"] });
    await readyMs();
    taken();
    const template = join(modulesDir, `010-${nameOf(10)}`, "templates", "objects.yaml");
    const times = await timesOfEdits(bench, { operator, namespace }, (text) => {
      const edited = readFileSync(template, "utf8").replace(/^ {2}text: .*/m, `  text: ${text}`);
      writeFileSync(template, edited);
    });
    return [
      { what: `median of ${EDITS}`, value: median(times), unit: "ms", target: 1000 },
      { what: `worst of ${EDITS}`, value: Math.max(...times), unit: "ms" },
      { what: "helm processes", value: taken(), unit: "" },
    ];
  },
};
