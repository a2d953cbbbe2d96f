// Measures the operator as a user runs it: the bundle, a process of its own, a real control plane and the real helm.
//   npm run bench -- [--json] [--list] [--long] [--only NAME,NAME] [--cpus N] [--compare REVISION | --peer FILE] [--runs N]
// One file per scenario in scripts/bench/scenarios, taken in order of name; those that take minutes only when named, or
// with --long. --compare builds another commit and alternates N runs (5) of both, --peer does so with the program of another
// operator. --cpus gives the operator a share of the processors. See scripts/bench/README.md.
import { readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { bench } from "./bench/bench.mjs";
import { compareRounds } from "./bench/compare.mjs";
import { limitCpus } from "./bench/cpus.mjs";
import { buildRevision, programOf } from "./bench/revision.mjs";
import { asComparison, asTable } from "./bench/table.mjs";
import { bundle } from "./build.mjs";
import { startCluster } from "./control-plane.mjs";
import { root, versions } from "./setup/versions.mjs";

const dir = new URL("bench/scenarios/", import.meta.url);
// Hooks under user ids of their own must reach the modules.
process.umask(0o022);

async function scenarios({ only, long, list, peer }) {
  const files = readdirSync(dir)
    .filter((name) => name.endsWith(".mjs"))
    .sort();
  const all = await Promise.all(files.map(async (file) => (await import(new URL(file, dir).href)).default));
  const unknown = only.filter((name) => !all.some((one) => one.name === name));
  if (unknown.length > 0)
    throw new Error(`no scenario ${unknown.join(", ")}; there are ${all.map(({ name }) => name).join(", ")}`);
  const usual = all.filter((one) => long || list || one.long !== true);
  const chosen = only.length === 0 ? usual : all.filter(({ name }) => only.includes(name));
  return peer === undefined ? chosen : chosen.filter((one) => one.peer === true);
}

function options(args) {
  const flag = { type: "boolean", default: false };
  const only = { type: "string", multiple: true, default: [] };
  const text = (value) => ({ type: "string", ...(value && { default: value }) });
  const { values } = parseArgs({
    args,
    options: {
      json: flag,
      list: flag,
      long: flag,
      only,
      compare: text(),
      peer: text(),
      cpus: text(),
      runs: text("5"),
    },
  });
  if (values.compare !== undefined && values.peer !== undefined)
    throw new Error("--compare and --peer exclude each other");
  if (values.cpus !== undefined && !(Number(values.cpus) > 0))
    throw new Error(`--cpus is a number above 0, such as 0.5, not ${String(values.cpus)}`);
  const runs = Number(values.runs);
  if (!(Number.isInteger(runs) && runs >= 3))
    throw new Error(`--runs is 3 or more, not ${String(values.runs)}`);
  return { ...values, runs, only: values.only.flatMap((names) => names.split(",")) };
}

function describe({ name, title, long = false }) {
  console.log(`${name.padEnd(16)} ${title}${long ? " (--long)" : ""}`);
}

/** The figures of all `chosen` scenarios with one build. */
async function measure(cluster, chosen, program) {
  const rows = [];
  for (const scenario of chosen) {
    process.stderr.write(`${scenario.name}: ${scenario.title}\n`);
    const context = bench(cluster, program);
    try {
      const figures = await scenario.run(context);
      rows.push(...figures.map((figure) => ({ scenario: scenario.name, ...figure })));
    } finally {
      await context.end();
    }
  }
  return rows;
}

/** Runs of both builds in turn; who begins changes, so that what the cluster accumulates slows down both alike. */
async function alternate(cluster, chosen, { before, after, runs }) {
  const rounds = [];
  for (let round = 1; round <= runs; round += 1) {
    process.stderr.write(`round ${round} of ${runs}\n`);
    const rows = {};
    const sides = Object.entries({ before, after });
    for (const [side, program] of round % 2 === 1 ? sides : sides.toReversed())
      rows[side] = await measure(cluster, chosen, program);
    rounds.push(rows);
  }
  return compareRounds(rounds);
}

async function withCluster(use) {
  const cluster = await startCluster();
  const stop = () => void cluster.stop().finally(() => process.exit(130));
  process.once("SIGINT", stop).once("SIGTERM", stop);
  try {
    return await use(cluster);
  } finally {
    await cluster.stop();
  }
}

async function main() {
  const requested = options(process.argv.slice(2));
  const chosen = await scenarios(requested);
  if (requested.list) return void chosen.forEach(describe);
  const { json, compare, peer, cpus, runs } = requested;
  const revision = compare ?? (peer && "peer");
  const cgroup = cpus === undefined ? undefined : limitCpus(Number(cpus));
  const limited = { words: cgroup?.words };
  const other =
    peer === undefined ? compare && buildRevision(compare) : { bundle: resolve(peer), peer: true };
  const before = other && { ...other, ...limited };
  try {
    const { bytes } = await bundle();
    const after = { ...programOf(root), ...limited };
    const environment = {
      cores: availableParallelism(),
      node: process.versions.node,
      ...versions,
      bundleBytes: bytes,
    };
    const rows = await withCluster((cluster) =>
      before ? alternate(cluster, chosen, { before, after, runs }) : measure(cluster, chosen, after),
    );
    const table = before ? asComparison(environment, { revision, runs }, rows) : asTable(environment, rows);
    console.log(json ? JSON.stringify({ environment, rows }, null, 2) : table);
  } finally {
    before?.remove?.();
    cgroup?.remove();
  }
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
