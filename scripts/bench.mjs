// Measures the operator as a user runs it: the bundle, a process of its own, a real control plane and the real helm.
//   npm run bench -- [--json] [--list] [--long] [--only NAME,NAME]
// One file per scenario in scripts/bench/scenarios, taken in order of name; those that take minutes only when named, or
// with --long. See scripts/bench/README.md.
import { readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { bench } from "./bench/bench.mjs";
import { asTable } from "./bench/table.mjs";
import { bundle } from "./build.mjs";
import { startCluster } from "./control-plane.mjs";
import { versions } from "./setup/versions.mjs";

const dir = new URL("bench/scenarios/", import.meta.url);

async function scenarios({ only, long, list }) {
  const files = readdirSync(dir)
    .filter((name) => name.endsWith(".mjs"))
    .sort();
  const all = await Promise.all(files.map(async (file) => (await import(new URL(file, dir).href)).default));
  const unknown = only.filter((name) => !all.some((one) => one.name === name));
  if (unknown.length > 0)
    throw new Error(`no scenario ${unknown.join(", ")}; there are ${all.map(({ name }) => name).join(", ")}`);
  const usual = all.filter((one) => long || list || one.long !== true);
  return only.length === 0 ? usual : all.filter(({ name }) => only.includes(name));
}

function options(args) {
  const flag = { type: "boolean", default: false };
  const only = { type: "string", multiple: true, default: [] };
  const { values } = parseArgs({ args, options: { json: flag, list: flag, long: flag, only } });
  return { ...values, only: values.only.flatMap((names) => names.split(",")) };
}

function describe({ name, title, long = false }) {
  console.log(`${name.padEnd(16)} ${title}${long ? " (--long)" : ""}`);
}

async function main() {
  const asked = options(process.argv.slice(2));
  const chosen = await scenarios(asked);
  if (asked.list) return void chosen.forEach(describe);
  const { bytes } = await bundle();
  const environment = {
    cores: availableParallelism(),
    node: process.versions.node,
    ...versions,
    bundleBytes: bytes,
  };
  const rows = [];
  const cluster = await startCluster();
  const stop = () => void cluster.stop().finally(() => process.exit(130));
  process.once("SIGINT", stop).once("SIGTERM", stop);
  try {
    for (const scenario of chosen) {
      process.stderr.write(`${scenario.name}: ${scenario.title}\n`);
      const context = bench(cluster);
      try {
        const figures = await scenario.run(context);
        rows.push(...figures.map((figure) => ({ scenario: scenario.name, ...figure })));
      } finally {
        await context.end();
      }
    }
  } finally {
    await cluster.stop();
  }
  console.log(asked.json ? JSON.stringify({ environment, rows }, null, 2) : asTable(environment, rows));
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
