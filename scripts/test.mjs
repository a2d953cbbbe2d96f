// `npm test`: all checks, and the unit and integration tests that protect users from each change. `npm run test:nightly`: the
// documentation site, the tests that `npm test` leaves out, and those with Helm 3. The last line is `N passed, N failed`; the exit code is
// 1 when something failed.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { modernNode } from "./setup/tools.mjs";
import { root } from "./setup/versions.mjs";
import { failuresText, run, testEnv, vitest } from "./test/vitest.mjs";

const totals = { passed: 0, failures: [] };
const env = testEnv();

async function check(title, command, how) {
  const ok = await run(title, command, { env, ...how });
  if (ok) totals.passed += 1;
  else totals.failures.push({ name: title, messages: ["see its output above"] });
  return ok;
}

async function tests(title, args, { helm, beside } = {}) {
  const { passed, failures } = await vitest(title, args, {
    env: helm ? { ...env, HELM: helm, HELMS: helm } : env,
    beside,
  });
  totals.passed += passed;
  totals.failures.push(...failures);
}

/** The files of tests below `test` with the comments at their beginning, which say when a file runs. */
function testFiles() {
  const names = readdirSync(join(root, "test"), { recursive: true }).filter((name) =>
    name.endsWith(".test.ts"),
  );
  return names.map((name) => {
    const file = join("test", name);
    const [head] = /^(?:\/\/.*\n)*/.exec(readFileSync(join(root, file), "utf8"));
    return {
      file,
      isIntegration: name.startsWith(join("integration", "/")),
      isNightly: /^\/\/ Runs at night: /m.test(head),
      // Its subject differs with the version of Helm. `test:compat` runs all files with both.
      needsHelm3: /^\/\/ Run with helm 3 /m.test(head),
    };
  });
}

const files = testFiles();
const [integrationFiles, unitFiles] = [true, false].map((is) =>
  files.filter(({ isIntegration }) => isIntegration === is),
);
const atNight = ({ isNightly }) => isNightly;

const script = (title, name, how) => check(title, ["npm", "run", "--silent", name], how);

const build = () => check("build", [modernNode(), join("scripts", "build.mjs")]);

async function testChange() {
  await script("format", "check:format");
  const built = await build();
  const chosen = integrationFiles.filter((file) => !atNight(file));
  // Integration tests often wait, which leaves a third of two processors to those beside them.
  const integration = async () => {
    if (built) await integrationTests("helm", chosen);
    // A second run takes what the first has left of the unit tests, so that no processor is idle at the end.
    await unitTests();
  };
  await Promise.all([checks(), unitTests(), integration()]);
  const [left, unitsLeft] = [integrationFiles, unitFiles].map((those) => those.filter(atNight).length);
  process.stdout.write(
    `\n${left} of ${integrationFiles.length} files of integration tests, ${unitsLeft} of ${unitFiles.length} of unit tests, Helm 3, and the documentation site are left to \`npm run test:nightly\`.\n`,
  );
}

async function checks() {
  // Programs in Go that collect garbage less often take less of a processor.
  const how = { beside: true, env: { ...env, GOGC: "400", GOMEMLIMIT: "2GiB" } };
  await script("lint", "check:lint", how);
  await script("types", "check:types", how);
}

/** The parts of the unit tests that no run has taken. */
const parts = ["1/4", "2/4", "3/4", "4/4"];

const UNIT_PROJECTS = ["unit", "measuring", "browser"].flatMap((name) => ["--project", name]);

async function unitTests() {
  const chosen = unitFiles.filter((file) => !atNight(file)).map(({ file }) => file);
  for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
    const args = [...UNIT_PROJECTS, ...chosen, "--maxWorkers=1", `--shard=${part}`];
    await tests(`unit tests, and those that measure, part ${part}`, args, { beside: true });
  }
}

async function testNight() {
  // The linter has checked its links.
  await script("documentation site", "docs:build");
  if (!(await build())) return;
  const units = unitFiles.filter(atNight).map(({ file }) => file);
  await tests("unit tests, and the page in a browser", [...UNIT_PROJECTS, ...units]);
  await integrationTests("helm", integrationFiles.filter(atNight));
  await integrationTests(
    "helm3",
    integrationFiles.filter(({ needsHelm3 }) => needsHelm3),
  );
}

function integrationTests(helm, files) {
  const args = ["--project", "integration", ...files.map(({ file }) => file)];
  return tests(`integration tests, ${helm}`, args, { helm, beside: true });
}

if (process.argv.includes("--nightly")) await testNight();
else await testChange();
const { passed, failures } = totals;
process.exitCode = failures.length > 0 ? 1 : 0;
if (failures.length > 0) process.stdout.write(`\n${failuresText(failures)}\n\n`);
process.stdout.write(`${passed} passed, ${failures.length} failed\n`);
