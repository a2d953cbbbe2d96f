import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../../eventually.mjs";
import { median } from "../bench.mjs";
import { nameOf, writeModules } from "../modules.mjs";

const FLIPS = 20;
const REPAIRS = 50;
const SCALES = 30;
/** A status is written at most once a second. */
const APART_MS = 1500;

export default {
  name: "working",
  title: "a Pod that is ready and then not until Healthy says so; a changed field until it is back",
  async run(bench) {
    const flips = await health(bench);
    const { times, fought } = await drift(bench);
    return [
      { what: `Pod's status to Healthy: median of ${FLIPS}`, value: median(flips), unit: "ms", target: 200 },
      { what: `Pod's status to Healthy: worst of ${FLIPS}`, value: Math.max(...flips), unit: "ms" },
      {
        what: `changed field to repair: median of ${REPAIRS}`,
        value: median(times),
        unit: "ms",
        target: 1000,
      },
      {
        what: `changed field to repair: worst of ${REPAIRS}`,
        value: Math.max(...times),
        unit: "ms",
        target: 3000,
      },
      { what: `replicas put back of ${SCALES} scaled, one a second`, value: fought, unit: "", target: 0 },
    ];
  },
};

// No node runs it: its status is what we write.
const POD = `apiVersion: v1
kind: Pod
metadata: {name: bench-pod}
spec:
  schedulerName: nobody
  automountServiceAccountToken: false
  containers: [{name: main, image: example.com/main}]
`;

async function health(bench) {
  const { api } = bench;
  const namespace = await bench.namespace();
  await eventually(() => api.get(`/api/v1/namespaces/${namespace}/serviceaccounts/default`), "its account");
  const modulesDir = writeModules(bench.dir(), 1, { files: () => ({ "templates/pod.yaml": POD }) });
  const { operator, readyMs } = await bench.start({ namespace, modulesDir });
  await readyMs();
  const pod = `/api/v1/namespaces/${namespace}/pods/bench-pod/status`;
  let seen = () => {};
  const modules = `/apis/addon-operator.io/v1alpha1/namespaces/${namespace}/addonmodules`;
  const end = await api.watch(modules, ({ object }) => seen(conditionOf(object, "Healthy")));
  // The first status waits until the API server serves the fresh CRD.
  const first = async () => {
    if (conditionOf(await api.get(`${modules}/${nameOf(1)}`), "Healthy") === undefined)
      throw new Error("none yet");
  };
  await eventually(first, "the first status");
  const times = [];
  for (let index = 0; index < FLIPS; index += 1) {
    const ready = index % 2 === 0 ? "True" : "False";
    await sleep(APART_MS);
    const from = performance.now();
    const reported = new Promise((resolve) => {
      seen = (status) => (status === "True") === (ready === "True") && resolve(performance.now() - from);
    });
    const status = { phase: "Running", conditions: [{ type: "Ready", status: ready }] };
    await api.send("PATCH", pod, { status });
    times.push(await reported);
  }
  end();
  await operator.stop();
  return times;
}

const conditionOf = ({ status }, type) => status?.conditions?.find((each) => each.type === type)?.status;

const DEPLOYMENT = `apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec: {containers: [{name: main, image: example.com/main}]}
`;

/** A different object each time: one that is changed again and again is put back less and less often. */
async function drift(bench) {
  const { api } = bench;
  const namespace = await bench.namespace();
  const modulesDir = writeModules(bench.dir(), REPAIRS, {
    files: (name) => (name === nameOf(1) ? { "templates/deployment.yaml": DEPLOYMENT } : {}),
  });
  const { operator, readyMs } = await bench.start({ namespace, modulesDir, args: ["--drift=repair"] });
  await readyMs();
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  let changed = () => {};
  const end = await api.watch(path, ({ object }) => changed(object));
  const times = [];
  for (let index = 1; index <= REPAIRS; index += 1) {
    const name = nameOf(index);
    const from = performance.now();
    let wasTaken = false;
    const back = new Promise((resolve) => {
      changed = ({ metadata, data }) => {
        if (metadata.name !== name) return;
        wasTaken ||= data.text === "other";
        if (wasTaken && data.text === "first") resolve(performance.now() - from);
      };
    });
    await api.send("PATCH", `${path}/${name}?fieldManager=kubectl-edit`, { data: { text: "other" } });
    times.push(await back);
  }
  end();
  const fought = await scale(api, namespace);
  await operator.stop();
  return { times, fought };
}

/** Scales as an autoscaler does; how often the number was not what it was set to a second before. */
async function scale(api, namespace) {
  const path = `/apis/apps/v1/namespaces/${namespace}/deployments/${nameOf(1)}`;
  const manager = "fieldManager=kube-controller-manager";
  let fought = 0;
  for (let index = 0; index < SCALES; index += 1) {
    const replicas = 2 + (index % 5);
    await api.send("PATCH", `${path}/scale?${manager}`, { spec: { replicas } });
    await sleep(1000);
    if ((await api.get(path)).spec.replicas !== replicas) fought += 1;
  }
  return fought;
}
