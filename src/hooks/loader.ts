import PQueue from "p-queue";

import type { Hook, HookConfig, HookFile, Problem } from "../model/index.ts";
import { type Logger, oneLine } from "../lib/index.ts";
import { run, type RunResult } from "../process/index.ts";
import { commandOf, workingDirOf } from "./command.ts";
import { parseHookConfig } from "./config.ts";

/** What loading hooks needs. `checkCrontab` and `checkFilter` throw (or reject) when the text is wrong. */
export interface HookLoaderOptions {
  /** The operator's own environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string | undefined;
  readonly logger: Logger;
  readonly checkCrontab?: ((line: string) => string | undefined) | undefined;
  readonly checkFilter?: ((filter: string) => Promise<unknown>) | undefined;
  /** For one `--config` call; default 60 s. */
  readonly timeoutMs?: number;
}

export type LoadedHook =
  | { readonly hook: Hook; readonly warnings: readonly string[] }
  | { readonly problem: Problem };

interface Configured {
  readonly config: HookConfig;
  readonly warnings: readonly string[];
}

const TIMEOUT_MS = 60_000;
const AT_ONCE = 4;
const TAIL_LINES = 3;

/**
 * Asks hooks for their configuration (`--config`, HOOKS "Hook configuration"), a few at a time. The answer is kept
 * for as long as the file's signature stays; a failure is asked for again.
 */
export class HookLoader {
  readonly #options: HookLoaderOptions;
  readonly #turns = new PQueue({ concurrency: AT_ONCE });
  readonly #kept = new Map<string, { signature: string; configured: Configured }>();

  constructor(options: HookLoaderOptions) {
    this.#options = options;
  }

  /** Never throws: whatever is wrong with the hook is its problem. `module` is undefined for global hooks. */
  async load(file: HookFile, module?: string, signal?: AbortSignal): Promise<LoadedHook> {
    const id = `${module ?? "global"}:${file.name}`;
    const key = `${id} ${file.path}`;
    const kept = this.#kept.get(key);
    if (kept?.signature === file.signature) return toHook(file, { id, module }, kept.configured);
    const answer = await this.#turns.add(() => this.#ask(file, module, signal));
    if ("problem" in answer) return answer;
    this.#kept.set(key, { signature: file.signature, configured: answer });
    return toHook(file, { id, module }, answer);
  }

  async #ask(
    file: HookFile,
    module: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Configured | { problem: Problem }> {
    const result = await this.#run(file, signal);
    if (result.outcome !== "succeeded") return { problem: runProblem(file, result) };
    if (result.stdoutTruncated) return { problem: configProblem(file, ["the output is larger than 1 MiB"]) };
    const kind = module === undefined ? "global" : "module";
    const parsed = parseHookConfig(result.stdout, kind, { checkCrontab: this.#options.checkCrontab });
    if ("errors" in parsed) return { problem: configProblem(file, parsed.errors) };
    const errors = await this.#filterErrors(parsed.config);
    return errors.length === 0 ? parsed : { problem: configProblem(file, errors) };
  }

  async #run(file: HookFile, signal: AbortSignal | undefined): Promise<RunResult> {
    const { env, workingDir, logger, timeoutMs = TIMEOUT_MS } = this.#options;
    logger.debug("Asking a hook for its configuration", { hook: file.name });
    return run({
      ...(await commandOf(file, ["--config"])),
      env: { ...env, WORKING_DIR: workingDirOf(file, workingDir) },
      timeoutMs,
      signal,
    });
  }

  async #filterErrors(config: HookConfig): Promise<string[]> {
    const { checkFilter } = this.#options;
    if (checkFilter === undefined) return [];
    const answers = config.kubernetes.map(async ({ id, jqFilter }) => {
      if (jqFilter === undefined) return [];
      return checkFilter(jqFilter).then(
        () => [],
        (error: unknown) => [`${id}.jqFilter is invalid: ${oneLine(error)}`],
      );
    });
    return (await Promise.all(answers)).flat();
  }
}

function toHook(
  file: HookFile,
  names: { id: string; module: string | undefined },
  configured: Configured,
): LoadedHook {
  return { hook: { ...file, ...names, config: configured.config }, warnings: configured.warnings };
}

function runProblem(file: HookFile, result: RunResult): Problem {
  const tail = result.stderr.trimEnd().split("\n").slice(-TAIL_LINES).join(" | ");
  const code = result.exitCode === undefined ? result.message : `exit code ${result.exitCode}`;
  const said = result.outcome === "failed" && tail !== "" ? `${code}: ${oneLine(tail)}` : result.message;
  return {
    file: file.path,
    key: "--config",
    message: `the hook failed: ${said}`,
    remedy: "it must print its configuration to stdout and end with exit code 0",
  };
}

function configProblem(file: HookFile, errors: readonly string[]): Problem {
  return {
    file: file.path,
    key: "--config",
    message: errors.join("; "),
    remedy: "correct what the hook prints",
  };
}
