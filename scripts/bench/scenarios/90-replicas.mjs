import { writeModules } from "../modules.mjs";

const LEASE = "addon-operator-addon-operator";
/** Of the holder that nobody can ask whether it lives; the replicas keep the usual times. */
const FOREIGN_SECONDS = 5;

export default {
  name: "replicas",
  title: "Take-over by the second of two replicas (--ha), 20 modules",
  async run(bench) {
    const namespace = await bench.namespace();
    const options = { namespace, modulesDir: writeModules(bench.dir(), 20), args: ["--ha"] };
    const first = await bench.start(options);
    await first.readyMs();
    const second = await bench.start(options);
    await second.readyMs();
    const stopped = await leads(bench, namespace, () => first.operator.stop());
    const third = await bench.start(options);
    await third.readyMs();
    const killed = await leads(bench, namespace, () => second.operator.kill9());
    await third.operator.stop();
    const expired = await expiry(bench);
    const most = 2000 + FOREIGN_SECONDS * 1000;
    return [
      { what: "after a stop", value: stopped, unit: "ms", target: 2000 },
      { what: "after a kill on the same machine", value: killed, unit: "ms", target: 2000 },
      {
        what: "after the last sign of life elsewhere, lease of 5 s",
        value: expired,
        unit: "ms",
        target: most,
      },
    ];
  },
};

const pathOf = (namespace) => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;

/** Milliseconds from the call of `leave` until another than now holds the lease. */
async function leads(bench, namespace, leave) {
  const path = pathOf(namespace);
  const before = (await bench.api.get(`${path}/${LEASE}`)).spec.holderIdentity;
  const next = nextHolder(bench, path, before);
  const [{ taken, end }, from] = [await next, performance.now()];
  const left = leave();
  const at = await taken;
  end();
  await left;
  return at - from;
}

async function nextHolder({ api }, path, before) {
  let take = () => {};
  const taken = new Promise((resolve) => (take = resolve));
  const end = await api.watch(`${path}?fieldSelector=metadata.name%3D${LEASE}`, ({ object }) => {
    const { holderIdentity } = object.spec;
    if (holderIdentity && holderIdentity !== before) take(performance.now());
  });
  return { taken, end };
}

/** The same for a holder on another machine, from its last renewal on. */
async function expiry(bench) {
  const namespace = await bench.namespace();
  const path = pathOf(namespace);
  const time = () => new Date().toISOString().replace("Z", "000Z");
  const spec = { holderIdentity: "elsewhere", leaseDurationSeconds: FOREIGN_SECONDS, renewTime: time() };
  await bench.api.send("POST", path, { metadata: { name: LEASE }, spec });
  let waits = () => {};
  const waiting = new Promise((resolve) => (waits = resolve));
  const onLine = (line) => line.includes("waiting for its lease") && waits();
  await bench.start({ namespace, modulesDir: writeModules(bench.dir(), 1), args: ["--ha"], onLine });
  await waiting;
  const { taken, end } = await nextHolder(bench, path, "elsewhere");
  const from = performance.now();
  await bench.api.send("PATCH", `${path}/${LEASE}`, { spec: { renewTime: time() } });
  const at = await taken;
  end();
  return at - from;
}
