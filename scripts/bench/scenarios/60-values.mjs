import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../../eventually.mjs";
import { median } from "../bench.mjs";
import { notes, untilRecorded, wallClock } from "../hooks.mjs";
import { shHook, tinyKey, tinyName, writeTiny } from "../tiny.mjs";

const HOOKS = 50;
const RUNS = 5;
const EDITS = 10;

export default {
  name: "values",
  title: "a hook run's own cost; schemas of 200 modules; one leaf of a ConfigMap of 900 KB",
  async run(bench) {
    const small = { what: "small values, nothing changes", body: "exit 0", files: {}, target: 3 };
    const patch = `echo "{\\"op\\":\\"add\\",\\"path\\":\\"/${tinyKey(1)}/p7\\",\\"value\\":\\"$$\\"}" >"$VALUES_JSON_PATCH_PATH"`;
    const big = { what: "1 MB of values, nothing changes", body: "exit 0", files: bigFiles(), target: 3 };
    const changed = { what: "1 MB of values, one changes", body: patch, files: bigFiles(), target: 60 };
    const costs = [];
    for (const each of [small, big, changed]) costs.push(await ownCost(bench, each));
    return [...costs, ...(await schemas(bench)), ...(await leaf(bench))];
  },
};

const keyNo = (index) => `p${index + 1}`;

/** 300 properties of 3.4 KB, each with a rule. */
function bigFiles() {
  const names = Array.from({ length: 300 }, (_, index) => keyNo(index));
  const values = Object.fromEntries(names.map((name) => [name, "0123456789abcdef ".repeat(200)]));
  const properties = Object.fromEntries(names.map((name) => [name, { type: "string", minLength: 1 }]));
  return {
    "values.yaml": JSON.stringify({ [tinyKey(1)]: values }),
    "openapi/values.yaml": JSON.stringify({ type: "object", properties }),
  };
}

/** What a run of a hook takes beyond a bare start of the same process: many hooks in one run of their module. */
async function ownCost(bench, { what, body, files, target }) {
  const names = Array.from({ length: HOOKS }, (_, index) => `hooks/h${String(index).padStart(2, "0")}.sh`);
  const hooks = Object.fromEntries(names.map((name) => [name, shHook("beforeHelm", body)]));
  const dir = writeTiny(bench.dir(), 1, () => ({ ...files, ...hooks }));
  const namespace = await bench.namespace();
  const { operator, readyMs } = await bench.start({ namespace, modulesDir: dir });
  await readyMs();
  const took = [];
  for (let run = 0; run < RUNS; run += 1) took.push((await runNow(bench, namespace, run)) / HOOKS);
  await operator.stop();
  const script = join(dir, `101-${tinyName(1)}`, names[0]);
  const bare = [];
  for (let run = 0; run < 2 * HOOKS; run += 1) bare.push(await bareMs(script));
  return { what: `hook run, ${what}`, value: median(took) - median(bare), unit: "ms", target };
}

/** Requests a run of the module and resolves to its duration in ms, as the operator reports it. */
async function runNow({ api }, namespace, run) {
  const path = `/apis/addon-operator.io/v1alpha1/namespaces/${namespace}/addonmodules/${tinyName(1)}`;
  const token = `run-${run}`;
  await eventually(() => api.get(path), "the AddonModule");
  await api.send("PATCH", path, {
    metadata: { annotations: { "reconcile.addon-operator.io/requestedAt": token } },
  });
  const { status } = await eventually(
    async () => {
      const object = await api.get(path);
      if (object.status.lastHandledReconcileAt !== token) throw new Error("not handled yet");
      return object;
    },
    `the run ${token}`,
    { timeoutMs: 120_000 },
  );
  return status.lastRun.durationSeconds * 1000;
}

/** By Node alone: what a hook costs is measured against the cheapest start. */
function bareMs(script) {
  const from = performance.now();
  const env = { ...process.env, VALUES_JSON_PATCH_PATH: "/dev/null" };
  return new Promise((resolve, reject) => {
    const child = spawn(script, [], { env, stdio: ["ignore", "pipe", "pipe"] });
    child.once("error", reject);
    child.once("close", () => resolve(performance.now() - from));
    child.stdout.resume();
    child.stderr.resume();
  });
}

async function schemas(bench) {
  const properties = Object.fromEntries(
    Array.from({ length: 30 }, (_, index) => [keyNo(index), { type: "integer", minimum: 1, default: 7 }]),
  );
  const schema = JSON.stringify({ type: "object", properties });
  const without = await startMs(bench, () => ({}));
  const withSchemas = await startMs(bench, (index) => ({
    // Each file is another one, or one compiled schema would do for all.
    "openapi/config-values.yaml": `# ${index}\n${schema}`,
    "openapi/values.yaml": '{"x-extend": {"schema": "config-values.yaml"}}',
  }));
  return [
    { what: "200 modules with schemas: ready", value: withSchemas, unit: "ms" },
    { what: "200 modules: what the schemas add", value: withSchemas - without, unit: "ms", target: 1000 },
  ];
}

async function startMs(bench, files) {
  const options = { namespace: await bench.namespace(), modulesDir: writeTiny(bench.dir(), 200, files) };
  const times = [];
  for (let run = 0; run < 3; run += 1) {
    const { operator, readyMs } = await bench.start(options);
    times.push(await readyMs());
    await operator.stop();
  }
  return median(times);
}

/** From the watch event of the edit until the first line of the one hook that has to run. */
async function leaf({ api, dir, namespace, start }) {
  const home = await namespace();
  const root = dir();
  writeFileSync(join(root, "notes"), "");
  const body = (index) =>
    `#!/usr/bin/env bash\nif [[ "$1" == --config ]]; then echo '{"configVersion":"v1","beforeHelm":1}'; exit 0; fi\necho "$EPOCHREALTIME ${index}" >>'${root}/notes'\n`;
  const modulesDir = writeTiny(dir(), 200, (index) => ({ "hooks/note.sh": body(index) }));
  const path = `/api/v1/namespaces/${home}/configmaps`;
  const section = (text) => `text: ${text}\npadding: ${"x".repeat(4500)}\n`;
  const data = Object.fromEntries(
    Array.from({ length: 200 }, (_, index) => [tinyKey(index + 1), section("first")]),
  );
  await api.send("PATCH", `${path}/addon-operator`, { data });
  const { operator, readyMs } = await start({ namespace: home, modulesDir });
  await readyMs();
  let reported = () => {};
  const end = await api.watch(`${path}?fieldSelector=metadata.name%3Daddon-operator`, () =>
    reported(wallClock()),
  );
  await sleep(500);
  const times = [];
  for (let edit = 0; edit < EDITS; edit += 1) {
    const before = notes(root).length;
    const arrived = new Promise((resolve) => (reported = resolve));
    await api.send("PATCH", `${path}/addon-operator`, { data: { [tinyKey(77)]: section(`edit ${edit}`) } });
    const from = await arrived;
    const lines = await untilRecorded(root, before + 1);
    times.push(Number(lines[before].split(" ")[0].replace(",", ".")) * 1000 - from);
    await sleep(500);
  }
  const ran = readFileSync(join(root, "notes"), "utf8").split("\n").length - 1 - 200;
  end();
  await operator.stop();
  return [
    {
      what: "ConfigMap of 900 KB, one leaf: event to hook, median",
      value: median(times),
      unit: "ms",
      target: 50,
    },
    { what: `ConfigMap of 900 KB, ${EDITS} edits: modules run`, value: ran, unit: "", target: EDITS },
  ];
}
