// Commands of the checkout, and runs of vitest whose tests are counted.
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { execa } from "execa";
import { tools, toolsEnv } from "../setup/tools.mjs";
import { root } from "../setup/versions.mjs";

/** What commands of the checkout run with: its own programs, the tools looked for once, and the program users run. */
export function testEnv() {
  return {
    ...process.env,
    ...toolsEnv(tools()),
    // As in the image: what was compiled once is kept for the next start.
    NODE_COMPILE_CACHE: join(root, ".tmp", "compile-cache"),
    PATH: `${join(root, "node_modules", ".bin")}${delimiter}${process.env.PATH}`,
    OPERATOR_BUNDLE: process.env.OPERATOR_BUNDLE ?? "true",
  };
}

/** Runs a command with its output on ours, at its end where others run `beside` it; resolves to its success. */
export async function run(title, [file, ...args], { env, beside = false }) {
  process.stdout.write(`\n== ${title}\n`);
  const output = beside ? "pipe" : "inherit";
  const options = { cwd: root, env, stdio: ["ignore", output, output], all: beside, reject: false };
  const { failed, exitCode, durationMs, all } = await execa(file, args, options);
  if (all) process.stdout.write(["", `${title}:`, all, ""].join("\n"));
  const outcome = failed ? `FAILED (${exitCode ?? `no ${file}, or killed`})` : "ok";
  process.stdout.write(`== ${title}: ${outcome} in ${(durationMs / 1000).toFixed(1)} s\n`);
  return !failed;
}

/**
 * One vitest run, by `before` if that is given; resolves to `{ passed, failed, names }`, counted from its report, with
 * the names of the tests that failed. A run that broke outside of a test counts as one failure.
 */
export async function vitest(title, args, { env, before = [], beside = false }) {
  // Whatever the tests leave in the temp directory goes with it. Some run programs as another user.
  const dir = mkdtempSync(join(tmpdir(), "tests-"));
  chmodSync(dir, 0o1777);
  const report = join(dir, "report.json");
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  try {
    const ok = await run(title, [...before, "vitest", "run", ...args, ...reporters], {
      env: { ...env, TMPDIR: dir },
      beside,
    });
    const { passed, failed, names } = count(report);
    return { passed, failed: ok || failed > 0 ? failed : 1, names };
  } finally {
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

function count(report) {
  try {
    const { numPassedTests, numFailedTests, testResults } = JSON.parse(readFileSync(report, "utf8"));
    const failedIn = ({ assertionResults }) => assertionResults.filter(({ status }) => status === "failed");
    const broken = testResults.filter((file) => file.status === "failed" && failedIn(file).length === 0);
    const names = testResults.flatMap((file) => failedIn(file).map(({ fullName }) => fullName));
    return {
      passed: numPassedTests,
      failed: numFailedTests + broken.length,
      names: [...names, ...broken.map(({ name }) => name)],
    };
  } catch {
    return { passed: 0, failed: 0, names: [] };
  }
}
