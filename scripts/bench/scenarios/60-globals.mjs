import { writeModules } from "../modules.mjs";

const COUNT = 100;
/** The last to run: when its object has changed, all others were looked at. */
const LAST = "bench-m100";

const naming = "  colour: {{ .Values.global.colour | quote }}\n";
const dynamic = '  other: {{ index .Values.global "other" | default "" | quote }}\n';

export default {
  name: "globals",
  title: "global value changed with 100 modules: one names it, or all use globals dynamically",
  async run(bench) {
    const one = { variant: "one names it", target: 1500, data: (name) => (name === LAST ? naming : "") };
    const all = { variant: "all dynamic", target: 4000, data: (name) => one.data(name) + dynamic };
    return [...(await measure(bench, one)), ...(await measure(bench, all))];
  },
};

async function measure(bench, { variant, target, data }) {
  const { helm, taken } = bench.counting();
  const namespace = await bench.namespace();
  const modulesDir = writeModules(bench.dir(), COUNT, { data });
  const { operator, readyMs } = await bench.start({ namespace, modulesDir, helm });
  await readyMs();
  await bench.quiet(operator);
  const before = await revisions(bench, namespace);
  taken();
  const cpu = bench.cpuMs(operator);
  const value = await change(bench, operator, `/api/v1/namespaces/${namespace}/configmaps`);
  const own = cpu === undefined ? undefined : bench.cpuMs(operator) - cpu;
  const upgrades = (await revisions(bench, namespace)) - before;
  await operator.stop();
  return [
    { what: `${variant}: edit until quiet`, value, unit: "ms", target },
    { what: `${variant}: processor time of the operator itself`, value: own, unit: "ms" },
    { what: `${variant}: helm upgrades`, value: upgrades, unit: "", target: 1 },
    { what: `${variant}: helm processes`, value: taken(), unit: "" },
  ];
}

async function change(bench, operator, path) {
  const { api } = bench;
  let seen = () => {};
  const end = await api.watch(`${path}?fieldSelector=metadata.name%3D${LAST}`, ({ object }) =>
    seen(object.data?.colour),
  );
  const changed = new Promise((resolve) => (seen = (colour) => colour === "red" && resolve()));
  const from = performance.now();
  await api.send("PATCH", `${path}/addon-operator`, { data: { global: "colour: red\n" } });
  await changed;
  await bench.quiet(operator);
  const took = performance.now() - from;
  end();
  return took;
}

async function revisions({ api }, namespace) {
  const path = `/api/v1/namespaces/${namespace}/secrets?labelSelector=owner%3Dhelm`;
  return (await api.get(path)).items.length;
}
