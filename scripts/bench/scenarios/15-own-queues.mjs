import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../../eventually.mjs";
import { median } from "../bench.mjs";
import { nameOf, writeModules } from "../modules.mjs";

const OWN = ["--module-queues=own"];
const EDITS = 5;
const CHAIN = 12;

export default {
  name: "own",
  title:
    "modules with queues of their own: one broken, slow hooks, a first converge, an edit, what is required",
  long: true,
  async run(bench) {
    return [
      ...(await broken(bench)),
      ...(await slowHooks(bench)),
      ...(await firstConverge(bench)),
      ...(await busyEdit(bench)),
      ...(await required(bench)),
    ];
  },
};

/** A hook in bash with one lifecycle binding. */
function hook(binding, body) {
  const config = JSON.stringify({ configVersion: "v1", [binding]: 1 });
  return `#!/bin/bash\nif [ "$1" = --config ]; then echo '${config}'; exit 0; fi\n${body}\n`;
}

/** Starts an operator over the modules and stops it when it is ready: all have run, or failed once. */
async function start(bench, modulesDir, args = OWN) {
  const { operator, readyMs } = await bench.start({ namespace: await bench.namespace(), modulesDir, args });
  const value = await readyMs();
  const { peak } = bench.memory(operator);
  await operator.stop();
  return { value, peak };
}

async function broken(bench) {
  const files = (fails) => (name) =>
    fails && name === nameOf(7) ? { "hooks/fail": hook("beforeHelm", "exit 1") } : {};
  const write = (fails) => writeModules(bench.dir(), 50, { number: 100, files: files(fails) });
  const undisturbed = await start(bench, write(false));
  const one = await start(bench, write(true));
  return [
    { what: "50 modules: all are done", value: undisturbed.value, unit: "ms" },
    {
      what: "50 modules, one fails: 49 are done",
      value: one.value,
      unit: "ms",
      target: undisturbed.value * 1.05,
    },
  ];
}

async function slowHooks(bench) {
  const files = () => ({ "hooks/sleep": hook("beforeHelm", "sleep 5") });
  const { value } = await start(bench, writeModules(bench.dir(), 20, { number: 100, files }));
  return [{ what: "20 modules with a hook of 5 s", value, unit: "ms", target: 12_000 }];
}

async function firstConverge(bench) {
  const main = await start(bench, writeModules(bench.dir(), 100, { number: 100 }), []);
  const own = await start(bench, writeModules(bench.dir(), 100, { number: 100 }));
  return [
    { what: "100 modules in main: first converge", value: main.value, unit: "ms" },
    {
      what: "100 modules, own queues: first converge",
      value: own.value,
      unit: "ms",
      target: main.value / 1.5,
    },
    { what: "100 modules in main: resident at most", value: main.peak, unit: "MB" },
    {
      what: "100 modules, own queues: resident at most",
      value: own.peak,
      unit: "MB",
      target: main.peak * 1.15,
    },
  ];
}

async function busyEdit(bench) {
  const dir = bench.dir();
  const busy = join(dir, "busy");
  const wait = hook("beforeHelm", `while [ -e ${busy} ]; do sleep 0.1; done`);
  const files = (name) => (name === nameOf(11) ? {} : { "hooks/wait": wait });
  const namespace = await bench.namespace();
  const modulesDir = writeModules(dir, 11, { number: 100, files });
  const { operator, readyMs } = await bench.start({ namespace, modulesDir, args: OWN });
  await readyMs();
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  await bench.quiet(operator);
  const alone = await edits(bench, path, "alone");
  writeFileSync(busy, "");
  const data = Object.fromEntries(
    Array.from({ length: 10 }, (_, index) => [key(nameOf(index + 1)), "text: busy\n"]),
  );
  await bench.api.send("PATCH", `${path}/addon-operator`, { data });
  await eventually(async () => (await running(operator)) === 10, "ten are busy");
  const among = await edits(bench, path, "among");
  rmSync(busy);
  await operator.stop();
  return [
    { what: `edit, nothing else to do: median of ${EDITS}`, value: alone, unit: "ms" },
    { what: `edit while ten others run: median of ${EDITS}`, value: among, unit: "ms", target: alone * 1.5 },
  ];
}

const key = (name) => name.replace("-m", "M");

async function running(operator) {
  const { active } = JSON.parse((await operator.http("/queue?output=json")).body);
  return active.filter(({ status }) => status === "run first task").length;
}

async function edits(bench, path, word) {
  const { api } = bench;
  let arrived = () => {};
  const end = await api.watch(`${path}?fieldSelector=metadata.name%3D${nameOf(11)}`, ({ object }) =>
    arrived(object.data?.text),
  );
  const times = [];
  for (let index = 0; index < EDITS; index += 1) {
    const text = `${word} ${index}`;
    const changed = new Promise(
      (resolve) => (arrived = (seen) => seen === text && resolve(performance.now())),
    );
    const from = performance.now();
    await api.send("PATCH", `${path}/addon-operator`, { data: { [key(nameOf(11))]: `text: ${text}\n` } });
    times.push((await changed) - from);
    // The run of this edit ends before the next one comes.
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  end();
  return median(times);
}

/** Each module requires the one before it: from the last line of one to the first of the next. */
async function required(bench) {
  const dir = bench.dir();
  const fileOf = (name, what) => join(dir, `${name}.${what}`);
  const files = (name) => {
    const before = nameOf(Number(name.slice(7)) - 1);
    return {
      "hooks/first": hook("beforeHelm", `echo "$EPOCHREALTIME" > ${fileOf(name, "first")}`),
      "hooks/last": hook("afterHelm", `echo "$EPOCHREALTIME" > ${fileOf(name, "last")}`),
      ...(name === nameOf(1) ? {} : { "addon.yaml": `requires: {modules: {${before}: "*"}}\n` }),
    };
  };
  await start(bench, writeModules(dir, CHAIN, { number: 100, files }));
  const at = (index, what) => Number(readFileSync(fileOf(nameOf(index), what), "utf8")) * 1000;
  const gaps = Array.from(
    { length: CHAIN - 1 },
    (_, index) => at(index + 2, "first") - at(index + 1, "last"),
  );
  return [
    { what: "last line of a module to first line of its user", value: median(gaps), unit: "ms", target: 150 },
  ];
}
