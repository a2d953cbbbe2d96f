// The integration tests on the oldest, the previous and the newest Kubernetes, with both helms, the oldest and the newest jq of this
// machine, and busybox in place of `sh`; those of filters with every jq. What came of it is written into
// docs/get-started/install.md.
//   npm run test:compat                        all rows
//   npm run test:compat -- --row 1,2           some of them
//   npm run test:compat -- --files helm,plan   only files with these words in their names
//   npm run test:compat -- --kubernetes 1.33.4 other versions
//   npm run test:compat -- --kubernetes next   the newest one after those, a pre-release too; writes nothing
//   npm run test:compat -- --world DIR...      modules and hooks of others (compat/world.mjs)
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { findJqs, findShells } from "./compat/found.mjs";
import { publishedVersions, serverEnv } from "./compat/kubernetes.mjs";
import { NEXT, compareVersions, findNext, optionsOf, rowsOf } from "./compat/plan.mjs";
import { withResults } from "./compat/table.mjs";
import { say } from "./setup/progress.mjs";
import { modernNode } from "./setup/tools.mjs";
import { compatible, root, versions } from "./setup/versions.mjs";
import { run, testEnv, vitest } from "./test/vitest.mjs";

const page = join(root, "docs", "get-started", "install.md");
const totals = { passed: 0, failed: 0 };
const env = testEnv();

async function main() {
  const { kubernetes: named, rows: wanted, files } = optionsOf(process.argv.slice(2), compatible);
  const kubernetes = await withNext(named);
  if (kubernetes.length === 0) return;
  const jqs = findJqs();
  const { shells, missing } = findShells();
  if (jqs.length === 1) say(`only ${jqs[0].version} was found; TEST_JQ=PATH:PATH names more`);
  if (missing) say(`hooks run in ${shells[0].name} alone: ${missing}`);
  const rows = rowsOf({ kubernetes, jqs, shells });
  const chosen = rows.filter((_, index) => wanted.length === 0 || wanted.includes(index + 1));
  // All of it before the first test: what is missing is reported at once.
  const servers = new Map();
  for (const version of new Set(chosen.map((row) => row.kubernetes)))
    servers.set(version, await serverEnv(version));
  await bundle();
  await filters(jqs);
  for (const row of chosen) await integration(row, { files, servers });
}

/** The versions, with the number of the next one, or without it where nothing newer is published. */
async function withNext(named) {
  if (!named.includes(NEXT)) return named;
  const next = findNext(await publishedVersions(), compatible.newest);
  say(next ? `next is Kubernetes ${next}` : `no version after ${compatible.newest} is published`);
  const others = named.filter((version) => version !== NEXT);
  return next ? [...others, next].toSorted(compareVersions) : others;
}

/** Both kinds of run use the program that users run. */
async function bundle() {
  if (!(await run("build", [modernNode(), join("scripts", "build.mjs")], { env })))
    throw new Error("no bundle");
}

/** The table of filters on docs/reference/hooks.md, and all tests of them, with each jq. */
async function filters(jqs) {
  const title = `tests of filters with ${jqs.map(({ version }) => version).join(", ")}`;
  const named = { ...env, TEST_JQ: jqs.map(({ file }) => file).join(delimiter) };
  record(
    await vitest(title, ["--project", "unit", "test/hooks/filter", "test/docs/hooks.test.ts"], {
      env: named,
    }),
  );
}

async function integration({ kubernetes, helm, jq, sh }, { files, servers }) {
  const helmVersion = versions[helm];
  const dir = mkdtempSync(join(tmpdir(), "compat-"));
  try {
    // Hooks and operator find jq on the PATH.
    symlinkSync(jq.file, join(dir, "jq"));
    const path = `${dir}${delimiter}${env.PATH}`;
    const rowEnv = { ...env, ...servers.get(kubernetes), HELM: helm, PATH: path };
    const title = `Kubernetes ${kubernetes}, helm ${helmVersion}, ${jq.version}, ${sh.name}`;
    const args = ["--project", "integration", ...files];
    const { passed, failures } = record(await vitest(title, args, { env: rowEnv, before: sh.before }));
    const failed = failures.length;
    const tests = files.length === 0 ? "all" : files.join(", ");
    const day = new Date().toISOString().slice(0, 10);
    const result = { kubernetes, helm: helmVersion, jq: jq.version, sh: sh.name, tests, passed, failed, day };
    if (!kubernetes.includes("-")) writeFileSync(page, withResults(readFileSync(page, "utf8"), [result]));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function record(result) {
  totals.passed += result.passed;
  totals.failed += result.failures.length;
  for (const { name } of result.failures) process.stdout.write(`FAILED: ${name}\n`);
  return result;
}

try {
  const args = process.argv.slice(2);
  if (args.includes("--world")) {
    await bundle();
    Object.assign(totals, await (await import("./compat/world.mjs")).world(args));
  } else await main();
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  totals.failed += 1;
}
process.exitCode = totals.failed > 0 ? 1 : 0;
process.stdout.write(`${totals.passed} passed, ${totals.failed} failed\n`);
