import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../../eventually.mjs";
import { median } from "../bench.mjs";
import { writeModules } from "../modules.mjs";
import { tinyKey, tinyName, writeTiny } from "../tiny.mjs";

const EDITS = 20;
const IDLE_MS = 5000;

export default {
  name: "status",
  title:
    "edit until the status shows it; writes of a converge of 100; 1,000 statuses at start; none while idle",
  async run(bench) {
    return [...(await edits(bench)), ...(await converge(bench)), ...(await many(bench))];
  },
};

const collection = (namespace) => `/apis/addon-operator.io/v1alpha1/namespaces/${namespace}/addonmodules`;

/** How long a plain wait for Ready can see the old state, and how long until the status says that work goes on. */
async function edits({ api, dir, namespace, start }) {
  const home = await namespace();
  const { operator, readyMs } = await start({ namespace: home, modulesDir: writeTiny(dir(), 20) });
  await readyMs();
  await idle(api);
  let seen = () => {};
  const name = tinyName(10);
  const end = await api.watch(`${collection(home)}?fieldSelector=metadata.name%3D${name}`, (event) =>
    seen(event.object),
  );
  const moved = [];
  const displayed = [];
  for (let index = 0; index < EDITS; index += 1) {
    const before = (await eventually(() => api.get(`${collection(home)}/${name}`), name)).spec.configDigest;
    const from = performance.now();
    const done = new Promise((resolve) => {
      let first;
      seen = (object) => {
        if (object.spec.configDigest === before) return;
        first ??= performance.now() - from;
        if (isNew(object)) resolve([first, performance.now() - from]);
      };
    });
    const data = { [tinyKey(10)]: `text: edit ${index}\n` };
    await api.send("PATCH", `/api/v1/namespaces/${home}/configmaps/addon-operator`, { data });
    const [digestMs, statusMs] = await done;
    moved.push(digestMs);
    displayed.push(statusMs);
    await idle(api);
  }
  end();
  await operator.stop();
  return [
    { what: "edit to moved generation: median", value: median(moved), unit: "ms" },
    { what: "edit to moved generation: worst", value: Math.max(...moved), unit: "ms", target: 100 },
    { what: "edit to status that shows it: median", value: median(displayed), unit: "ms", target: 100 },
    { what: "edit to status that shows it: worst", value: Math.max(...displayed), unit: "ms" },
  ];
}

/** The status speaks of the new generation, or says that it is being worked on. */
function isNew({ metadata, status }) {
  const reconciling = status?.conditions?.some(({ type }) => type === "Reconciling");
  return reconciling || status?.observedGeneration === metadata.generation;
}

async function converge({ api, dir, namespace, start, cluster }) {
  const before = await writes(api);
  const { operator, readyMs } = await start({
    namespace: await namespace(),
    modulesDir: writeModules(dir(), 100),
    helm: cluster.bin.helm,
  });
  await readyMs();
  await idle(api);
  const value = (await writes(api)) - before;
  const still = await writes(api);
  await sleep(IDLE_MS);
  const idleWrites = (await writes(api)) - still;
  await operator.stop();
  return [
    { what: "100 modules: writes of a first converge", value, unit: "", target: 450 },
    { what: `100 modules: writes in ${IDLE_MS / 1000} s of nothing`, value: idleWrites, unit: "", target: 0 },
  ];
}

async function many({ api, dir, namespace, start }) {
  const home = await namespace();
  const written = new Set();
  let first;
  let done = () => {};
  const all = new Promise((resolve) => (done = resolve));
  const end = await api.watch(collection(home), ({ object }) => {
    first ??= performance.now();
    if ((object.status?.observedGeneration ?? -1) > 0) written.add(object.metadata.name);
    if (written.size === 1000) done(performance.now());
  });
  const begun = performance.now();
  const { operator, readyMs } = await start({ namespace: home, modulesDir: writeTiny(dir(), 1000) });
  const ready = await readyMs();
  const last = await all;
  end();
  await operator.stop();
  return [
    { what: "1,000 modules: first to last status", value: last - first, unit: "ms", target: 8000 },
    { what: "1,000 modules: start to last status", value: last - begun, unit: "ms" },
    { what: "1,000 modules: start to ready", value: ready, unit: "ms" },
  ];
}

/** Requests so far that would change an AddonModule or AddonOperator, by the API server's own count. */
async function writes(api) {
  const lines = (await api.text("/metrics")).split("\n");
  const ours = lines.filter((line) =>
    /^apiserver_request_total\{.*group="addon-operator\.io".*verb="(POST|PUT|PATCH|DELETE|APPLY)"/.test(line),
  );
  return ours.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

/** Resolves when nothing was written for one and a half seconds: statuses are written at most once a second. */
async function idle(api) {
  for (let before = -1, now = await writes(api); now !== before;) {
    before = now;
    await sleep(1500);
    now = await writes(api);
  }
}
