/** The jq program: where it is, its version, and what it says of the text of a filter. */

import { createRequire } from "node:module";
import { resolve } from "node:path";

import { oneLine } from "../lib/index.ts";
import { findProgram, run } from "../process/index.ts";
import { FilterError } from "./filter-error.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** A jq program that was found. */
export interface Jq {
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

/** Finds jq: the setting, else `jq` on PATH, else node-jq's own. Throws FilterError `engine`. */
export async function findJq(jqBin: string | undefined, env: Env): Promise<Jq> {
  const file = locate(jqBin, env);
  const childEnv = env["TZ"] === undefined ? {} : { TZ: env["TZ"] };
  const asking = { file, args: ["--version"], cwd: "/", env: childEnv, timeoutMs: VERSION_TIMEOUT_MS };
  const asked = await run(asking);
  if (asked.outcome !== "succeeded") throw new FilterError("engine", `${file} --version: ${asked.message}`);
  const version = asked.stdout.trim();
  return { file, version, gojq: version.startsWith("gojq"), env: childEnv };
}

function locate(jqBin: string | undefined, env: Env): string {
  if (jqBin?.includes("/")) return resolve(jqBin);
  const names = jqBin === undefined ? ["jq", ...nodeJqFile()] : [jqBin];
  const [found] = names.flatMap((name) => findProgram(name, env["PATH"]) ?? []);
  if (found !== undefined) return found;
  const message = `${names[0]} not found on PATH: install jq, or name one with --jq-bin (JQ_PATH)`;
  throw new FilterError("engine", message);
}

/** Where node-jq keeps its jq; empty without the package. */
export function nodeJqFile(): readonly string[] {
  try {
    return [resolve(createRequire(import.meta.url).resolve("node-jq"), "..", "..", "bin", "jq")];
  } catch {
    return [];
  }
}

/**
 * Asks jq whether the text is a correct program; it gets no input, so nothing is evaluated. node-jq does it where
 * it would start the same jq. Throws FilterError `syntax` with jq's message in one line.
 */
export async function checkSyntax(jq: Jq, text: string, env: Env): Promise<void> {
  // node-jq reads the variables itself when it is loaded.
  const itsFile = env["JQ_PATH"] ?? env["npm_config_jq_path"] ?? nodeJqFile()[0];
  const nodeJq = itsFile === jq.file ? await loadNodeJq() : undefined;
  const problem = nodeJq === undefined ? await askJq(jq, text) : await askNodeJq(nodeJq, text);
  if (problem !== undefined) throw new FilterError("syntax", tidy(problem));
}

async function askJq(jq: Jq, text: string): Promise<string | undefined> {
  const { file, env } = jq;
  const args = ["-c", asArgument(text)];
  const result = await run({ file, args, cwd: "/", env, timeoutMs: CHECK_TIMEOUT_MS });
  if (result.outcome === "succeeded") return undefined;
  if (result.exitCode === undefined) throw new FilterError("engine", `${file}: ${result.message}`);
  return result.stderr;
}

/** A filter may begin with a minus sign, which must not be read as an option. */
function asArgument(text: string): string {
  return ` ${text}`;
}

interface NodeJq {
  run(filter: string, json: string, options: object, cwd?: string): Promise<unknown>;
}

async function loadNodeJq(): Promise<NodeJq | undefined> {
  try {
    // Loaded when first needed: it takes tens of milliseconds. Optional, so its types may be missing too.
    const name: string = "node-jq";
    return (await import(name)) as NodeJq;
  } catch {
    return undefined;
  }
}

async function askNodeJq(nodeJq: NodeJq, text: string): Promise<string | undefined> {
  try {
    // A blank, not an empty text: node-jq closes jq's stdin only when it has something to write.
    await nodeJq.run(asArgument(text), " ", { input: "string", output: "string" }, "/");
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** A message of jq or gojq in one line, without the program that they quote. */
export function tidy(stderr: string): string {
  const lines = stderr.split("\n").map((line) => line.trimEnd());
  const first = (lines[0] ?? "").replace(/^(?:go)?jq: (?:error(?: \(at [^)]*\))?: )?/, "");
  const caret = lines.find((line) => /^\s*\^/.test(line))?.replace(/^\s*\^\s*/, "");
  const words = first.replace(" (Unix shell quoting issues?)", "").replace(/:$/, "");
  return oneLine(caret === undefined ? words : `${words}: ${caret}`, MESSAGE_LIMIT);
}
