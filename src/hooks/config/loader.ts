/** Asks hooks for their configuration (`--config`) and keeps the answers. */

import PQueue from "p-queue";

import type { HookKind } from "../../bindings/index.ts";
import { oneLine } from "../../lib/index.ts";
import { queueOf } from "../../model/index.ts";
import type { Hook, HookConfig, HookFile, ModuleQueues, Problem } from "../../model/index.ts";
import { run, type RunResult } from "../../process/index.ts";
import { commandOf, type StartSettings } from "../run-hook.ts";
import { parseHookConfig } from "./hook-config.ts";

/** What asking hooks needs. `checkFilter` rejects when the text is wrong. */
export interface AskOptions extends StartSettings {
  readonly checkFilter?: ((filter: string) => Promise<unknown>) | undefined;
  /** For one `--config` call; default 60 s. */
  readonly timeoutMs?: number;
  readonly moduleQueues?: ModuleQueues;
}

interface Configured {
  readonly config: HookConfig;
  readonly warnings: readonly string[];
}

/** A configuration; or why there is none; or everything that is wrong with it. */
type ConfigAnswer = Configured | { readonly failure: string } | { readonly errors: readonly string[] };

const TIMEOUT_MS = 60_000;
const TAIL_LINES = 3;

/** Runs a hook with `--config` and reads what it prints. Never throws. */
export async function askConfig(
  file: HookFile,
  { kind, queue }: { readonly kind: HookKind; readonly queue?: string },
  options: AskOptions,
): Promise<ConfigAnswer> {
  try {
    await options.prepare?.();
  } catch (error) {
    return { failure: oneLine(error) };
  }
  const result = await run({
    ...(await commandOf(file, ["--config"], options)),
    timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
  });
  if (result.outcome !== "succeeded") return { failure: describe(result) };
  if (result.stdoutTruncated) return { errors: ["the configuration is larger than 1 MiB"] };
  const parsed = parseHookConfig(result.stdout, kind, queue);
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

export type LoadedHook =
  | { readonly hook: Hook; readonly warnings: readonly string[] }
  | { readonly problem: Problem };

const AT_ONCE = 4;

/**
 * Asks hooks for their configuration (`--config`), a few at a time. The answer is kept for as long as the signature of
 * the file stays the same; after a failure the hook is asked again.
 */
export class HookLoader {
  readonly #options: AskOptions;
  readonly #turns = new PQueue({ concurrency: AT_ONCE });
  readonly #kept = new Map<string, { signature: string; configured: Configured }>();

  constructor(options: AskOptions) {
    this.#options = options;
  }

  /** Never throws: what is wrong with the hook is its `problem`. `module` is undefined for global hooks. */
  async load(file: HookFile, module?: string): Promise<LoadedHook> {
    const names = { id: `${module ?? "global"}:${file.name}`, module };
    const key = `${names.id} ${file.path}`;
    const kept = this.#kept.get(key);
    if (kept?.signature === file.signature) return toHook(file, names, kept.configured);
    const kind = module === undefined ? "global" : "module";
    const queue = queueOf(this.#options.moduleQueues ?? "main", module);
    const answer = await this.#turns.add(() => askConfig(file, { kind, queue }, this.#options));
    if ("failure" in answer) return { problem: failureProblem(file, answer.failure) };
    if ("errors" in answer) return { problem: configProblem(file, answer.errors.join("; ")) };
    this.#kept.set(key, { signature: file.signature, configured: answer });
    return toHook(file, names, answer);
  }
}

function toHook(
  file: HookFile,
  names: { id: string; module: string | undefined },
  { config, warnings }: Configured,
): LoadedHook {
  return { hook: { ...file, ...names, config }, warnings };
}

/** The problem of a hook that failed when it was asked. */
export function failureProblem(file: HookFile, failure: string): Problem {
  return {
    file: file.path,
    key: "--config",
    message: `the hook failed: ${failure}`,
    remedy: "it must print its configuration to stdout and end with exit code 0",
  };
}

/** The problem of a hook that printed a wrong configuration. */
export function configProblem(file: HookFile, message: string, key = "--config"): Problem {
  return { file: file.path, key, message, remedy: "correct what the hook prints" };
}
