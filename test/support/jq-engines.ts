import { delimiter } from "node:path";

import { findJq, findNodeJqFile, type Jq } from "../../src/hooks/filter/jq.ts";
import { Children } from "../../src/base/process/index.ts";

/**
 * The jq engines of this machine, one for each version: those that TEST_JQ names (paths with colons between them), jq
 * and gojq on PATH, and the one of node-jq.
 */
export async function jqEngines(): Promise<Jq[]> {
  const { env } = process;
  const named = (env["TEST_JQ"] ?? "").split(delimiter).filter((file) => file !== "");
  const found = await Promise.allSettled(
    [...named, "jq", "gojq", ...findNodeJqFile()].map((file) => findJq(file, env, new Children())),
  );
  for (const [place, file] of named.entries()) {
    if (found[place]?.status === "rejected") throw new Error(`TEST_JQ: ${file} is no jq`);
  }
  const engines = found.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  return [...new Map(engines.map((engine) => [engine.version, engine])).values()];
}

/** The column of the table in docs/reference/hooks.md: `jq 1.6`, `gojq` … */
export function familyOf({ version, gojq }: Jq): string {
  return gojq ? "gojq" : version.replace(/^jq-(\d+\.\d+).*/, "jq $1");
}
