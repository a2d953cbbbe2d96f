/** Finds the jq program and its version, and checks the syntax of filters with it. */

import { createRequire } from "node:module";
import { resolve } from "node:path";

import { attempt, oneLine } from "../../base/index.ts";
import { findProgram, type Children } from "../../base/process/index.ts";
import { FilterError } from "./lexer.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** A jq program that was found. */
export interface Jq {
  readonly children: Children;
  /** Absolute path. */
  readonly file: string;
  /** As the program prints it, e.g. `jq-1.7.1` or `gojq 0.12.17`. */
  readonly version: string;
  readonly gojq: boolean;
  /** The environment of filters: no variable of the operator but its time zone. */
  readonly env: Readonly<Record<string, string>>;
}

const VERSION_TIMEOUT_MS = 10_000;
const CHECK_TIMEOUT_MS = 30_000;
const MESSAGE_LIMIT = 300;

/**
 * Finds jq: the setting `jqBin`, else `jq` on PATH, else that of the package node-jq. Of the operator's environment, jq gets
 * only the time zone, because filters could read all else. Throws FilterError `engine`.
 */
export async function findJq(jqBin: string | undefined, env: Env, children: Children): Promise<Jq> {
  const file = findJqFile(jqBin, env);
  const childEnv = env["TZ"] === undefined ? {} : { TZ: env["TZ"] };
  const timeoutMs = VERSION_TIMEOUT_MS;
  const versionRun = await children.run({ file, args: ["--version"], cwd: "/", env: childEnv, timeoutMs });
  if (versionRun.outcome !== "succeeded")
    throw new FilterError("engine", `${file} --version: ${versionRun.message}`);
  const version = versionRun.stdout.trim();
  return { children, file, version, gojq: version.startsWith("gojq"), env: childEnv };
}

/** The absolute path of jq. Throws FilterError `engine` with the remedy. */
function findJqFile(jqBin: string | undefined, env: Env): string {
  if (jqBin?.includes("/")) return resolve(jqBin);
  const names = jqBin === undefined ? ["jq", ...findNodeJqFile()] : [jqBin];
  const [firstPath] = names.flatMap((name) => findProgram(name, env["PATH"]) ?? []);
  if (firstPath !== undefined) return firstPath;
  const message = `${names[0]} not found on PATH: install jq, or name one with --jq-bin (JQ_PATH)`;
  throw new FilterError("engine", message);
}

/** Path of the jq program that the package node-jq contains, as a list of one; empty if the package is not installed. */
export function findNodeJqFile(): readonly string[] {
  const packageFile = attempt(() => createRequire(import.meta.url).resolve("node-jq"));
  return packageFile === undefined ? [] : [resolve(packageFile, "..", "..", "bin", "jq")];
}

/** Checks the syntax of a filter by running jq without input, so nothing is evaluated. Throws FilterError `syntax` with jq's message in one line. */
export async function checkSyntax({ children, file, env }: Jq, text: string): Promise<void> {
  // The blank in front: jq reads an argument that begins with a minus sign as an option.
  const args = ["-c", ` ${text}`];
  const result = await children.run({ file, args, cwd: "/", env, timeoutMs: CHECK_TIMEOUT_MS });
  if (result.outcome === "succeeded") return;
  if (result.exitCode === undefined) throw new FilterError("engine", `${file}: ${result.message}`);
  throw new FilterError("syntax", shortenJqError(result.stderr));
}

/**
 * Shortens an error text of jq or gojq to one line: the first line without the name of the program, and what gojq writes
 * after the caret under the wrong place. Drops the further lines, in which both quote the filter.
 */
export function shortenJqError(stderr: string): string {
  const lines = stderr.split("\n").map((line) => line.trimEnd());
  const firstLine = (lines[0] ?? "").replace(/^(?:go)?jq: (?:error(?: \(at [^)]*\))?: )?/, "");
  const caretText = lines.find((line) => /^\s*\^/.test(line))?.replace(/^\s*\^\s*/, "");
  const mainText = firstLine.replace(" (Unix shell quoting issues?)", "").replace(/:$/, "");
  return oneLine(caretText === undefined ? mainText : `${mainText}: ${caretText}`, MESSAGE_LIMIT);
}
