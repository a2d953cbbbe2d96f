/** Finds the jq program and its version. */

import { createRequire } from "node:module";
import { resolve } from "node:path";

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

/** Finds jq: the setting, else `jq` on PATH, else node-jq's own. Throws FilterError `engine`. */
export async function findJq(jqBin: string | undefined, env: Env): Promise<Jq> {
  const file = locate(jqBin, env);
  const childEnv = env["TZ"] === undefined ? {} : { TZ: env["TZ"] };
  const asked = await run({
    file,
    args: ["--version"],
    cwd: "/",
    env: childEnv,
    timeoutMs: VERSION_TIMEOUT_MS,
  });
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
