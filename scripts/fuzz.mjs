// Feeds the texts of test/fuzz/corpus, and texts made from them, to every parser of text from outside, for so many minutes. With helm as
// judge of YAML, .helmignore, and index.yaml, the API server as judge of crontab lines, and each jq of the PATH as judge of filters.
//   npm run fuzz -- [--minutes N] [--seed N]
// A failure prints the seed. To repeat it, pass the seed. The exit code is 1 after a failure.
import { parseArgs } from "node:util";
import { execa } from "execa";
import { modernNode } from "./setup/tools.mjs";
import { root } from "./setup/versions.mjs";

const { values: flags } = parseArgs({
  options: { minutes: { type: "string", default: "10" }, seed: { type: "string" } },
});
const INPUTS_OF_A_ROUND = "2000";
const FILES = [
  "test/fuzz",
  "test/hooks/filter/subset.test.ts",
  "test/values/patch",
  "test/integration/judged-parsers.test.ts",
  "test/integration/judged-yaml.test.ts",
];

/** Runs all fuzz tests once with a seed. Resolves to the number of inputs, or undefined after a failure. */
async function round(seed) {
  const args = [
    "run",
    "--reporter=dot",
    "--project=unit",
    "--project=measuring",
    "--project=integration",
    ...FILES,
  ];
  const { exitCode, all } = await execa(modernNode(), ["node_modules/vitest/vitest.mjs", ...args], {
    cwd: root,
    env: { SEED: String(seed), SEEDS: INPUTS_OF_A_ROUND, COUNT: "1", NO_COLOR: "1" },
    reject: false,
    all: true,
  });
  if (exitCode !== 0) {
    console.log(all);
    return undefined;
  }
  const counts = [...all.matchAll(/^(\d+) inputs:|^YAML: (\d+) texts/gm)].map(([, inputs, judged]) =>
    Number(inputs ?? judged),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

const end = performance.now() + Number(flags.minutes) * 60_000;
let seed = Number(flags.seed ?? Date.now() % 1_000_000_000);
let inputs = 0;
do {
  const count = await round(seed);
  if (count === undefined) {
    console.log(`failed: repeat with npm run fuzz -- --minutes 0 --seed ${seed}`);
    process.exitCode = 1;
    break;
  }
  inputs += count;
  console.log(`seed ${seed}: ${count} inputs, ${inputs} in all`);
  seed += 1;
} while (performance.now() < end);
