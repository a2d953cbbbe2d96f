// What a first converge and a restart take, with everything that the operator runs.
import { setTimeout as sleep } from "node:timers/promises";
import { writeChartModules } from "./generated-charts.mjs";

/** The restart is measured, not what the API server and its controllers still do with new objects. */
const REST_MS = 10_000;
/** How often an operator is asked whether it is ready: a first converge takes seconds. */
const INTERVAL_MS = 50;
/** Where the charts have objects outside of the namespace of their release. */
const ELSEWHERE = [
  "/apis/apiregistration.k8s.io/v1/apiservices",
  "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
  "/apis/rbac.authorization.k8s.io/v1/clusterroles",
  "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
  "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
];

/** Figures of both with one module for each chart; `prefix` begins their names. */
export async function measureConverge(bench, charts, prefix = "") {
  const modulesDir = writeChartModules(bench.dir(), charts, bench.program.peer);
  const options = { namespace: await bench.namespace(), modulesDir };
  bench.cleanup(() => removeElsewhere(bench, options.namespace));
  const first = await figures(bench, options, `${prefix}first converge`);
  await sleep(REST_MS);
  const restart = await figures(bench, options, `${prefix}restart`);
  return [...first, ...restart];
}

async function figures(bench, options, what) {
  const { operator, readyMs } = await bench.start(options);
  const tree = bench.measureTree(operator.pid);
  const ms = await readyMs(INTERVAL_MS);
  const cpu = bench.treeCpuMs(operator);
  const { peak } = tree.stop();
  await operator.stop();
  return [
    { what, value: ms, unit: "ms" },
    { what: `${what}: processor time of all processes`, value: cpu, unit: "ms" },
    { what: `${what}: memory of all processes at most`, value: peak, unit: "MB" },
  ];
}

/** Removes what the releases of a namespace have outside of it: the next run installs objects of the same names. */
async function removeElsewhere({ api }, namespace) {
  for (const path of ELSEWHERE) {
    const { items } = await api.get(path);
    const own = items.filter(
      ({ metadata }) => metadata.annotations?.["meta.helm.sh/release-namespace"] === namespace,
    );
    await Promise.all(own.map(({ metadata }) => api.send("DELETE", `${path}/${metadata.name}`)));
  }
}
