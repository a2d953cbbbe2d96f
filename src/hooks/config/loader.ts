/** Loads hooks: asks each for its configuration and keeps the answer. */

import PQueue from "p-queue";

import type { Hook, HookFile, Problem } from "../../model/index.ts";
import { askConfig, type AskOptions, type Configured } from "./ask-config.ts";

/** What loading hooks needs. */
export type HookLoaderOptions = AskOptions;

export type LoadedHook =
  | { readonly hook: Hook; readonly warnings: readonly string[] }
  | { readonly problem: Problem };

const AT_ONCE = 4;

/**
 * Asks hooks for their configuration (`--config`), a few at a time. The answer is kept for as long as the signature of
 * the file stays the same; after a failure the hook is asked again.
 */
export class HookLoader {
  readonly #options: HookLoaderOptions;
  readonly #turns = new PQueue({ concurrency: AT_ONCE });
  readonly #kept = new Map<string, { signature: string; configured: Configured }>();

  constructor(options: HookLoaderOptions) {
    this.#options = options;
  }

  /** Never throws: what is wrong with the hook is its `problem`. `module` is undefined for global hooks. */
  async load(file: HookFile, module?: string, signal?: AbortSignal): Promise<LoadedHook> {
    const names = { id: `${module ?? "global"}:${file.name}`, module };
    const key = `${names.id} ${file.path}`;
    const kept = this.#kept.get(key);
    if (kept?.signature === file.signature) return toHook(file, names, kept.configured);
    const kind = module === undefined ? "global" : "module";
    const answer = await this.#turns.add(() => askConfig(file, { kind, signal }, this.#options));
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
