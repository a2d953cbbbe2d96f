import { median } from "../bench.mjs";
import { nameOf, writeModules } from "../modules.mjs";

const LEASE = "addon-operator-addon-operator";
const ROUNDS = 3;
/** In a PID namespace of its own, as in a Pod, a process cannot see whether another replica lives. Needs root. */
const APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];

export default {
  name: "replicas",
  title: "Take-over by the second of two replicas (--ha) with the usual lease, 100 modules",
  long: true,
  async run(bench) {
    const namespace = await bench.namespace();
    const options = { namespace, modulesDir: writeModules(bench.dir(), 100), args: ["--ha"] };
    const start = async (words = []) => {
      const replica = await bench.start({ ...options, words });
      await replica.readyMs();
      return replica.operator;
    };
    let leader = await start();
    const [stops, crashes] = [[], []];
    for (let round = 0; round < ROUNDS; round += 1) {
      const second = await start(APART);
      stops.push(await takeOver(bench, namespace, () => leader.stop()));
      leader = await start();
      crashes.push(await takeOver(bench, namespace, () => second.kill9()));
    }
    await start();
    const beside = await takeOver(bench, namespace, () => leader.kill9());
    return [
      ...figures("a stop", stops, 1000),
      ...figures("a crash", crashes, 16_000),
      ...figures("a crash beside the second, which sees it", [beside], 2000),
    ];
  },
};

/** The most of the times until another leads, which `target` bounds, and the median of those until an edit has effect. */
function figures(what, times, target) {
  const edits = times.map(({ edited }) => edited);
  return [
    {
      what: `after ${what}, at most`,
      value: Math.max(...times.map(({ leads }) => leads)),
      unit: "ms",
      target,
    },
    { what: `after ${what}: an edit at this time has taken effect`, value: median(edits), unit: "ms" },
  ];
}

/** Milliseconds from the call of `leave` until another than now holds the lease, and until an edit after it has taken effect. */
async function takeOver(bench, namespace, leave) {
  const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
  const configMaps = `/api/v1/namespaces/${namespace}/configmaps`;
  const { holderIdentity: before } = (await bench.api.get(`${leases}/${LEASE}`)).spec;
  const text = `not by ${before}`;
  const taken = await firstTime(
    bench,
    leases,
    LEASE,
    ({ spec }) => ![undefined, "", before].includes(spec.holderIdentity),
  );
  const applied = await firstTime(bench, configMaps, nameOf(10), ({ data }) => data.text === text);
  const from = performance.now();
  const left = leave();
  await bench.api.send("PATCH", `${configMaps}/addon-operator`, { data: { benchM010: `text: ${text}\n` } });
  const [leads, edited] = [(await taken.at) - from, (await applied.at) - from];
  await left;
  return { leads, edited };
}

/** `at` resolves to the time at which the object of this name is as `check` wants it. Awaited itself, it is watched. */
async function firstTime({ api }, path, name, check) {
  let resolve = () => {};
  const at = new Promise((done) => (resolve = done));
  const end = await api.watch(`${path}?fieldSelector=metadata.name%3D${name}`, ({ object }) => {
    if (check(object)) resolve(performance.now());
  });
  return { at: at.finally(end) };
}
