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

async function tests(title, args, more = {}) {
  const { passed, failed } = await vitest(title, args, { env: { ...env, ...more } });
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
  const projects = ["unit", "measuring", "browser"].flatMap((name) => ["--project", name]);
  await tests("unit tests, those that measure, and the page in a browser", projects);
  if (!built) return;
  await tests("integration tests, helm 4", ["--project", "integration"], { HELM: "helm" });
  await tests("integration tests, helm 3", ["--project", "integration", ...helmTests()], { HELM: "helm3" });
}

await main();
process.exitCode = totals.failed > 0 ? 1 : 0;
process.stdout.write(`${totals.passed} passed, ${totals.failed} failed\n`);
