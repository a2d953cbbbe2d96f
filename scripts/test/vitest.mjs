// Commands of the checkout, and runs of vitest whose tests are counted.
import { readFileSync } from "node:fs";
import { delimiter, join, relative } from "node:path";
import { execa } from "execa";
import { tools, toolsEnv } from "../setup/tools.mjs";
import { root } from "../setup/versions.mjs";
import { makeTempDir, removeTempDir } from "./temp-dir.mjs";

/** What is repeated of the error of a failed test. */
const LINES = 30;
const COLUMNS = 300;

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
 * One vitest run, by `before` if that is given; resolves to `{ passed, failures }`, counted from its report.
 * `failures` are `{ name, messages }` of each test that failed. A run that broke outside of a test counts as one failure.
 */
export async function vitest(title, args, { env, before = [], beside = false }) {
  // Whatever the tests leave in the temp directory goes with it.
  const dir = makeTempDir();
  const report = join(dir, "report.json");
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  try {
    const ok = await run(title, [...before, "vitest", "run", ...args, ...reporters], {
      env: { ...env, TMPDIR: dir },
      beside,
    });
    const { passed, failures } = count(report);
    if (!ok && failures.length === 0)
      failures.push({ name: title, messages: ["it broke outside of a test"] });
    return { passed, failures };
  } finally {
    removeTempDir(dir);
  }
}

function count(report) {
  try {
    const { numPassedTests, testResults } = JSON.parse(readFileSync(report, "utf8"));
    return { passed: numPassedTests, failures: testResults.flatMap(failuresOf) };
  } catch {
    return { passed: 0, failures: [] };
  }
}

/** A file that failed without a failed test broke while it was loaded, or in a hook. */
export function failuresOf({ name: file, status, message, assertionResults }) {
  const path = relative(root, file);
  const failed = assertionResults.filter((test) => test.status === "failed");
  if (status === "failed" && failed.length === 0) return [{ name: path, messages: [message] }];
  return failed.map(({ fullName, failureMessages }) => ({
    name: `${path} > ${fullName}`,
    messages: failureMessages,
  }));
}

/** Failed tests as text, each with the first lines of its error: for the end of an output of which only the end is kept. */
export function failuresText(failures) {
  return failures
    .map(({ name, messages }) => {
      const lines = messages.join("\n").split("\n").slice(0, LINES);
      return [`FAILED: ${name}`, ...lines.map((line) => `    ${line.slice(0, COLUMNS)}`)].join("\n");
    })
    .join("\n");
}
