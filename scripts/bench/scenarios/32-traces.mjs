import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { eventually } from "../../eventually.mjs";
import { median } from "../bench.mjs";
import { shHook } from "../tiny.mjs";
import { writeModules } from "../modules.mjs";

/** Two tasks for each object and queue: so many in a queue are not folded yet. */
const OBJECTS = 95;
const QUEUES = 5;
const TASKS = 2 * OBJECTS * QUEUES;
const PARALLEL = 10;
const ROUNDS = 4;

export default {
  name: "traces",
  title: "a storm of hooks with and without a collector: processor time, and how much of it is recording",
  async run(bench) {
    const collector = await startCollector();
    const on = [`--otlp-endpoint=${collector.endpoint}`];
    try {
      const [off, sent] = await storms(bench, [{}, { args: on }]);
      const shares = await profiles(bench, on);
      const first = [await converge(bench, []), await converge(bench, on)];
      return [
        { what: "processor time of 1,000 tasks, no collector", value: off.cpu, unit: "ms" },
        { what: "processor time of 1,000 tasks, collector", value: sent.cpu, unit: "ms" },
        { what: "tasks in a second, no collector", value: off.rate, unit: "" },
        { what: "tasks in a second, collector", value: sent.rate, unit: "" },
        { what: "share of recording in a profile, no collector", value: shares[0], unit: "%", target: 1 },
        { what: "share of recording in a profile, collector", value: shares[1], unit: "%", target: 5 },
        { what: "first converge of 20 modules, no collector", value: first[0], unit: "ms" },
        { what: "first converge of 20 modules, collector", value: first[1], unit: "ms" },
        { what: "spans that the collector got", value: collector.spans(), unit: "" },
      ];
    } finally {
      collector.close();
    }
  },
};

/** Takes spans, and counts them. */
async function startCollector() {
  let spans = 0;
  const take = async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    for (const { scopeSpans } of JSON.parse(body).resourceSpans)
      for (const each of scopeSpans) spans += each.spans.length;
    response.end("{}");
  };
  const server = createServer((request, response) => void take(request, response));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const endpoint = `http://127.0.0.1:${server.address().port}`;
  return { endpoint, spans: () => spans, close: () => server.close() };
}

/** One storm after the other, in turns, so that a machine that gets slower does so for all. */
async function storms(bench, variants) {
  const all = [];
  for (const variant of variants) all.push({ ...(await begin(bench, variant)), rounds: [] });
  for (let round = 0; round < ROUNDS; round += 1)
    for (const each of all) each.rounds.push(await storm(bench, each, round));
  for (const { operator } of all) await operator.stop();
  // The first one warms up.
  const of = (rounds, what) => Math.round(median(rounds.slice(1).map((each) => each[what])));
  return all.map(({ rounds }) => ({ cpu: of(rounds, "cpu"), rate: of(rounds, "rate") }));
}

async function begin(bench, options) {
  const namespace = await bench.namespace();
  const places = { namespace, ...writeHooks(bench.dir(), namespace) };
  const { operator, readyMs } = await bench.start({ ...places, ...options });
  await readyMs();
  return { operator, path: `/api/v1/namespaces/${namespace}/configmaps` };
}

async function storm(bench, { operator, path }, round) {
  const before = await ran(operator);
  const [cpu, from] = [bench.cpuMs(operator), performance.now()];
  await create(bench.api, path, round);
  const check = async () => (await ran(operator)) === before + TASKS;
  await eventually(check, "all hooks ran", { timeoutMs: 600_000, intervalMs: 100 });
  const took = performance.now() - from;
  const used = cpu === undefined ? undefined : bench.cpuMs(operator) - cpu;
  await bench.api.send("DELETE", `${path}?labelSelector=bench%3Dyes`);
  return { cpu: used && (1000 * used) / TASKS, rate: (1000 * TASKS) / took };
}

async function ran(operator) {
  const { body } = await operator.http("/metrics");
  const runs = body.matchAll(/^addon_operator_global_hook_success_total\{.* (\d+)$/gm);
  return runs.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** From the sources: there a profile tells the file of each function. */
async function profiles(bench, on) {
  const variants = [[], on].map((args) => {
    const profile = bench.dir();
    return { profile, args, bundle: false, env: { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${profile}` } };
  });
  await storms(bench, variants);
  return variants.map(({ profile }) => shareOf(profile));
}

async function create(api, path, round) {
  let next = 0;
  const worker = async () => {
    while (next < OBJECTS) {
      const name = `storm-${round}-${(next += 1)}`;
      await api.send("POST", path, { metadata: { name, labels: { bench: "yes" } } });
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
}

/** Two hooks take turns in each queue: each event is a task of its own. */
function writeHooks(dir, namespace) {
  const [globalHooksDir, modulesDir] = [join(dir, "global-hooks"), join(dir, "modules")];
  for (const each of [globalHooksDir, modulesDir]) mkdirSync(each);
  const binding = (queue) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    namespace: { nameSelector: { matchNames: [namespace] } },
    labelSelector: { matchLabels: { bench: "yes" } },
    executeHookOnSynchronization: false,
    executeHookOnEvent: ["Added"],
    queue: `bench-${queue}`,
  });
  for (let index = 0; index < 2 * QUEUES; index += 1) {
    const hook = shHook("kubernetes", ":", [binding(index % QUEUES)]);
    writeFileSync(join(globalHooksDir, `hook-${index}.sh`), hook, { mode: 0o755 });
  }
  return { globalHooksDir, modulesDir };
}

async function converge(bench, args) {
  const options = { namespace: await bench.namespace(), modulesDir: writeModules(bench.dir(), 20), args };
  const { operator, readyMs } = await bench.start(options);
  const ms = await readyMs();
  await operator.stop();
  return ms;
}

/**
 * Percent of the time that the process worked and in which src/base/trace did: itself, or what it called of Node or src/base.
 * Work that goes on within a span is not its own.
 */
function shareOf(dir) {
  const all = readdirSync(dir).map((name) => JSON.parse(readFileSync(join(dir, name), "utf8")));
  // Workers have profiles of their own.
  const { nodes, samples, timeDeltas } = all.toSorted((a, b) => b.samples.length - a.samples.length)[0];
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const roomOf = (id) => {
    for (let each = id; each !== undefined; each = parents.get(each)) {
      const room = /\/src\/(?!lib\/|base\/(?!trace\/))(?:base\/)?(\w+)/.exec(
        byId.get(each).callFrame.url,
      )?.[1];
      if (room !== undefined) return room;
    }
    return undefined;
  };
  let [own, busy] = [0, 0];
  samples.forEach((id, at) => {
    if (/^\((?:idle|root)\)$/.test(byId.get(id).callFrame.functionName)) return;
    busy += timeDeltas[at];
    if (roomOf(id) === "trace") own += timeDeltas[at];
  });
  return Number(((100 * own) / busy).toFixed(2));
}
