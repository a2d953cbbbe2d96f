/** Asks a hook for its configuration (`--config`). */

import type { HookKind } from "../../bindings/index.ts";
import { type Logger, oneLine } from "../../lib/index.ts";
import type { HookConfig, HookFile } from "../../model/index.ts";
import { run, type RunResult } from "../../process/index.ts";
import { commandOf, workingDirOf } from "../hook-command.ts";
import { parseHookConfig } from "./hook-config.ts";

/** What asking hooks needs. `checkFilter` rejects when the text is wrong. */
export interface AskOptions {
  /** The operator's own environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string | undefined;
  readonly logger: Logger;
  readonly checkFilter?: ((filter: string) => Promise<unknown>) | undefined;
  /** For one `--config` call; default 60 s. */
  readonly timeoutMs?: number;
}

export interface Configured {
  readonly config: HookConfig;
  readonly warnings: readonly string[];
}

/** A configuration; or why there is none; or everything that is wrong with it. */
export type ConfigAnswer = Configured | { readonly failure: string } | { readonly errors: readonly string[] };

const TIMEOUT_MS = 60_000;
const TAIL_LINES = 3;

/** Runs a hook with `--config`, in its own directory, and reads what it prints. Never throws. */
export async function askConfig(
  file: HookFile,
  asking: { readonly kind: HookKind; readonly signal?: AbortSignal | undefined },
  options: AskOptions,
): Promise<ConfigAnswer> {
  const result = await run({
    ...(await commandOf(file, ["--config"])),
    env: { ...options.env, WORKING_DIR: workingDirOf(file, options.workingDir) },
    timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
    signal: asking.signal,
  });
  if (result.outcome !== "succeeded") return { failure: describe(result) };
  if (result.stdoutTruncated) return { errors: ["the configuration is larger than 1 MiB"] };
  const parsed = parseHookConfig(result.stdout, asking.kind);
  if ("errors" in parsed) return parsed;
  const errors = await filterErrors(parsed.config, options.checkFilter);
  return errors.length === 0 ? parsed : { errors };
}

function describe(result: RunResult): string {
  const tail = oneLine(result.stderr.trimEnd().split("\n").slice(-TAIL_LINES).join(" | "));
  if (result.outcome !== "failed" || result.exitCode === undefined || tail === "") return result.message;
  return `exit code ${result.exitCode}: ${tail}`;
}

async function filterErrors(config: HookConfig, checkFilter: AskOptions["checkFilter"]): Promise<string[]> {
  if (checkFilter === undefined) return [];
  const answers = config.bindings.kubernetes.map(async ({ id, jqFilter }) => {
    if (jqFilter === undefined) return [];
    return checkFilter(jqFilter).then(
      () => [],
      (error: unknown) => [`${id}.jqFilter is invalid: ${oneLine(error)}`],
    );
  });
  return (await Promise.all(answers)).flat();
}
