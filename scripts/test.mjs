// Everything `npm test` promises, in one run. The last line is `N passed, N failed`; the exit code is 1 when something failed.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { modernNode } from "./setup/tools.mjs";
import { root } from "./setup/versions.mjs";
import { run, testEnv, vitest } from "./test/vitest.mjs";

const totals = { passed: 0, failed: 0 };
const env = testEnv();

async function check(title, command, how) {
  const ok = await run(title, command, { env, ...how });
  totals[ok ? "passed" : "failed"] += 1;
  return ok;
}

async function tests(title, args, { helm, beside } = {}) {
  const { passed, failed } = await vitest(title, args, { env: helm ? { ...env, HELM: helm } : env, beside });
  totals.passed += passed;
  totals.failed += failed;
}

/** The integration tests whose subject differs with helm say so; `test:compat` runs all of them with both. */
function helmTests() {
  const dir = join("test", "integration");
  const files = readdirSync(join(root, dir), { recursive: true }).filter((name) => name.endsWith(".test.ts"));
  const text = (name) => readFileSync(join(root, dir, name), "utf8");
  return files
    .filter((name) => text(name).startsWith("// Run with helm 3 as well."))
    .map((name) => join(dir, name));
}

const script = (title, name, how) => check(title, ["npm", "run", "--silent", name], how);

async function main() {
  await script("format", "check:format");
  await script("lint", "check:lint");
  // Each of them takes one processor for the most part. Not beside the linter, which would read what the site is made of.
  const both = [
    ["types", "check:types"],
    ["documentation site, its links", "docs:build"],
  ];
  await Promise.all(both.map(([title, name]) => script(title, name, { beside: true })));
  const built = await check("build", [modernNode(), join("scripts", "build.mjs")]);
  // Integration tests often wait, which leaves a third of two processors to those beside them.
  await Promise.all([unitAndHelm3Tests(built), built && integrationTests("helm")]);
}

async function unitAndHelm3Tests(built) {
  const oneWorker = ["--maxWorkers=1"];
  const projects = ["unit", "measuring", "browser"].flatMap((name) => ["--project", name]);
  const title = "unit tests, those that measure, and the page in a browser";
  await tests(title, [...projects, ...oneWorker], { beside: true });
  if (built) await integrationTests("helm3", { args: [...helmTests(), ...oneWorker], beside: true });
}

function integrationTests(helm, { args = [], beside = false } = {}) {
  return tests(`integration tests, ${helm}`, ["--project", "integration", ...args], { helm, beside });
}

await main();
process.exitCode = totals.failed > 0 ? 1 : 0;
process.stdout.write(`${totals.passed} passed, ${totals.failed} failed\n`);
