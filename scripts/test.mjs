// Everything `npm test` promises, in one run. The last line is `N passed, N failed`; the exit code is 1 when something failed.
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { execa } from "execa";
import { modernNode, tools, toolsEnv } from "./setup/tools.mjs";
import { root } from "./setup/versions.mjs";

const reports = mkdtempSync(join(tmpdir(), "test-reports-"));
const totals = { passed: 0, failed: 0 };
const env = {
  ...process.env,
  // Looked for once.
  ...toolsEnv(tools()),
  PATH: `${join(root, "node_modules", ".bin")}${delimiter}${process.env.PATH}`,
  // The operator under test is the program users run.
  OPERATOR_BUNDLE: process.env.OPERATOR_BUNDLE ?? "true",
};

/** Runs a command with its output on ours; resolves to its success. */
async function run(title, [file, ...args], more = {}) {
  process.stdout.write(`\n== ${title}\n`);
  const stdio = ["ignore", "inherit", "inherit"];
  const options = { cwd: root, env: { ...env, ...more }, stdio, reject: false };
  const { failed, exitCode, durationMs } = await execa(file, args, options);
  const outcome = failed ? `FAILED (${exitCode ?? `no ${file}, or killed`})` : "ok";
  process.stdout.write(`== ${title}: ${outcome} in ${(durationMs / 1000).toFixed(1)} s\n`);
  return !failed;
}

async function check(title, command) {
  const ok = await run(title, command);
  totals[ok ? "passed" : "failed"] += 1;
  return ok;
}

/** One vitest run; its tests are counted from its report, and a run that broke outside of a test counts as one failure. */
async function vitest(title, args, more) {
  const report = join(reports, `${title.replaceAll(/\W+/g, "-")}.json`);
  const command = [
    "vitest",
    "run",
    ...args,
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${report}`,
  ];
  const ok = await run(title, command, more);
  const { passed, failed } = count(report);
  totals.passed += passed;
  totals.failed += ok || failed > 0 ? failed : 1;
}

function count(report) {
  try {
    const { numPassedTests, numFailedTests, testResults } = JSON.parse(readFileSync(report, "utf8"));
    const broken = testResults.filter(
      (file) => file.status === "failed" && file.assertionResults.every((one) => one.status !== "failed"),
    );
    return { passed: numPassedTests, failed: numFailedTests + broken.length };
  } catch {
    return { passed: 0, failed: 0 };
  }
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

async function main() {
  await check("format", ["npm", "run", "--silent", "check:format"]);
  await check("lint", ["npm", "run", "--silent", "check:lint"]);
  await check("types", ["npm", "run", "--silent", "check:types"]);
  const built = await check("build", [modernNode(), join("scripts", "build.mjs")]);
  await vitest("unit tests", ["--project", "unit"]);
  await vitest("patterns", ["--project", "patterns"]);
  if (!built) return;
  await vitest("integration tests, helm 4", ["--project", "integration"], { HELM: "helm" });
  await vitest("integration tests, helm 3", ["--project", "integration", ...helmTests()], { HELM: "helm3" });
}

try {
  await main();
} finally {
  rmSync(reports, { recursive: true, force: true });
}
process.exitCode = totals.failed > 0 ? 1 : 0;
process.stdout.write(`${totals.passed} passed, ${totals.failed} failed\n`);
