#!/usr/bin/env node
// Checks an operator command against the contract of addon-operator's documents, as a black box. Plain Node.js 20 or later.
//   node conformance/run.mjs --operator 'COMMAND' [--kubeconfig FILE] [--kubectl FILE] [--only NAME,…] [--report FILE] [--timeout SECONDS]
//   node conformance/run.mjs --list
import { spawnSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { World } from "./world.mjs";

const { values: flags } = parseArgs({
  options: {
    operator: { type: "string" },
    kubeconfig: { type: "string", default: process.env.KUBECONFIG },
    kubectl: { type: "string", default: "kubectl" },
    only: { type: "string" },
    report: { type: "string" },
    timeout: { type: "string", default: "60" },
    list: { type: "boolean", default: false },
  },
});

/** Loads each file of `scenarios/`: `{ name, cases, run }`. */
async function loadScenarios() {
  const files = readdirSync(new URL("scenarios", import.meta.url)).filter((name) => name.endsWith(".mjs"));
  const only = flags.only?.split(",");
  const loaded = await Promise.all(files.toSorted().map((name) => import(`./scenarios/${name}`)));
  const scenarios = loaded.flatMap((each) => each.default);
  return scenarios.filter(({ name }) => only === undefined || only.includes(name));
}

/** Runs one scenario. A case that fails does not stop the next one; a case that is not reached has failed. */
async function runScenario(scenario) {
  const world = new World({
    name: scenario.name,
    operator: flags.operator,
    kubeconfig: flags.kubeconfig,
    kubectl: flags.kubectl,
    timeoutMs: Number(flags.timeout) * 1000,
  });
  const results = new Map();
  const check = async (id, test) => {
    if (!(id in scenario.cases)) throw new Error(`${scenario.name} declares no case "${id}"`);
    const begin = performance.now();
    const failure = await Promise.resolve(world)
      .then(test)
      .then(
        () => undefined,
        (error) => error.message,
      );
    results.set(id, { failure, ms: Math.round(performance.now() - begin) });
  };
  let reason = "the scenario ended before";
  try {
    await scenario.run(world, check);
  } catch (error) {
    reason = error.message;
  }
  const log = world.lastLog();
  await world.end();
  return Object.entries(scenario.cases).map(([id, { source, statement }]) => {
    const { failure, ms = 0 } = results.get(id) ?? { failure: `not reached: ${reason}` };
    const passed = failure === undefined;
    const shared = { id: `${scenario.name}/${id}`, source, statement, passed, ms };
    return passed ? shared : { ...shared, failure, log };
  });
}

function print(result) {
  console.log(`${result.passed ? "pass" : "FAIL"}  ${result.id}  ${result.statement}`);
  if (!result.passed)
    console.log(`      ${result.source}\n      ${result.failure.split("\n").join("\n      ")}`);
}

const scenarios = await loadScenarios();
if (flags.list) {
  for (const { name, cases } of scenarios)
    for (const [id, { source, statement }] of Object.entries(cases))
      console.log(`${name}/${id}\t${source}\t${statement}`);
} else if (flags.operator === undefined || flags.kubeconfig === undefined) {
  console.error(
    "name the command with --operator 'COMMAND' and the cluster with --kubeconfig FILE or KUBECONFIG",
  );
  process.exitCode = 2;
} else {
  const cases = [];
  for (const scenario of scenarios) {
    const results = await runScenario(scenario);
    results.forEach(print);
    cases.push(...results);
  }
  const failed = cases.filter(({ passed }) => !passed).length;
  const server = spawnSync(flags.kubectl, ["--kubeconfig", flags.kubeconfig, "version", "-o", "json"], {
    encoding: "utf8",
  });
  const kubernetes = JSON.parse(server.stdout || "{}").serverVersion?.gitVersion;
  const report = { operator: flags.operator, kubernetes, passed: cases.length - failed, failed, cases };
  if (flags.report !== undefined) writeFileSync(flags.report, `${JSON.stringify(report, undefined, 2)}\n`);
  console.log(`${report.passed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}
