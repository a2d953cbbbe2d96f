/** Asks jq whether the text of a filter is correct. */

import { oneLine } from "../lib/index.ts";
import { run } from "../process/index.ts";
import { FilterError } from "./filter-error.ts";
import { type Jq, nodeJqFile } from "./jq.ts";

type Env = Readonly<Record<string, string | undefined>>;

const CHECK_TIMEOUT_MS = 30_000;
const MESSAGE_LIMIT = 300;

/**
 * Asks jq whether the text is a correct program; it gets no input, so nothing is evaluated. node-jq does it where
 * it would start the same jq. Throws FilterError `syntax` with jq's message in one line.
 */
export async function checkSyntax(jq: Jq, text: string, env: Env): Promise<void> {
  const nodeJq = nodeJqStarts(env) === jq.file ? await loadNodeJq() : undefined;
  const problem = nodeJq === undefined ? await askJq(jq, text) : await askNodeJq(nodeJq, text);
  if (problem !== undefined) throw new FilterError("syntax", tidy(problem));
}

async function askJq(jq: Jq, text: string): Promise<string | undefined> {
  const { file, env } = jq;
  const result = await run({
    file,
    args: ["-c", asArgument(text)],
    cwd: "/",
    env,
    timeoutMs: CHECK_TIMEOUT_MS,
  });
  if (result.outcome === "succeeded") return undefined;
  if (result.exitCode === undefined) throw new FilterError("engine", `${file}: ${result.message}`);
  return result.stderr;
}

/** A filter may begin with a minus sign, which must not be read as an option. */
function asArgument(text: string): string {
  return ` ${text}`;
}

/** The file that node-jq starts; node-jq reads the variables itself when it is loaded. */
function nodeJqStarts(env: Env): string | undefined {
  return env["JQ_PATH"] ?? env["npm_config_jq_path"] ?? nodeJqFile()[0];
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
