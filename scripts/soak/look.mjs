// What the cluster contains, and what the operator takes.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { memory } from "../bench/bench.mjs";
import { treeMegabytes, treeOf } from "../bench/tree.mjs";

/** The figures of a sample: their titles, and the rise that is never a growth. */
export const FIGURES = {
  resident: { title: "resident MB", least: 10 },
  tree: { title: "tree MB", least: 10 },
  heap: { title: "heap MB", least: 10 },
  descriptors: { title: "descriptors", least: 10 },
  children: { title: "children", least: 2 },
  files: { title: "temp files", least: 10 },
  timers: { title: "timers", least: 10 },
  handles: { title: "handles", least: 10 },
};

/** The state as the model describes it. */
export async function look({ api, path, own }) {
  const list = async (url) => (await api.get(url)).items;
  const [maps, services, secrets, modules] = await Promise.all(
    [path("configmaps"), path("services"), path("secrets"), own("addonmodules")].map(list),
  );
  const records = secrets
    .filter(({ metadata }) => metadata.labels?.owner === "helm")
    .map(({ metadata: { labels } }) => [labels.name, labels.status, Number(labels.version)])
    .toSorted((a, b) => a[2] - b[2]);
  const tick = maps.find(({ metadata }) => metadata.name === "tick");
  return {
    objects: [...maps.map(described("ConfigMap")), ...services.map(described("Service"))],
    releases: Object.fromEntries(records.map(([name, status]) => [name, status])),
    states: Object.fromEntries(modules.map(({ metadata, status }) => [metadata.name, status?.state])),
    tickAge: tick === undefined ? Infinity : Math.round(Date.now() / 1000 - Number(tick.data.at)),
  };
}

const described =
  (kind) =>
  ({ metadata, data }) => ({
    kind,
    name: metadata.name,
    data,
    helm: metadata.labels?.["app.kubernetes.io/managed-by"] === "Helm",
  });

/** A sample of what the operator takes now. */
export async function sample({ operator, dir, life }) {
  const { body } = await operator.http("/metrics");
  const metric = (name) => Number(new RegExp(`^${name} (\\S+)`, "m").exec(body)?.[1]);
  return {
    life,
    resident: memory(operator).resident,
    tree: treeMegabytes(operator.pid),
    heap: metric("nodejs_heap_size_used_bytes") / 1e6,
    descriptors: readdirSync(`/proc/${operator.pid}/fd`).length,
    children: treeOf(operator.pid).length - 1,
    files: ["tmp", "tmpdir"].flatMap((name) => readdirSync(join(dir, name), { recursive: true })).length,
    timers: metric('nodejs_active_resources\\{type="Timeout"\\}'),
    handles: metric("nodejs_active_handles_total"),
  };
}
