/** Loads hooks: asks their files for the configuration and keeps the answers. */

import { statSync } from "node:fs";

import PQueue from "p-queue";

import { hashFiles, readPlain } from "../../lib/index.ts";
import { queueOf } from "../../model/index.ts";
import type { Hook, HookFile, ModuleQueues, Problem } from "../../model/index.ts";
import { askConfig, type AskOptions, type Question } from "./ask.ts";
import type { Configured, ConfiguredHook } from "./batch-config.ts";

export interface LoaderOptions extends AskOptions {
  readonly moduleQueues?: ModuleQueues;
}

export type LoadedHooks =
  | { readonly hooks: readonly Hook[]; readonly warnings: readonly string[] }
  | { readonly problem: Problem };

const AT_ONCE = 4;
/** A larger file counts as changed when its signature is. */
const LARGEST_READ = 1024 * 1024;

interface Kept {
  /** The file when it was asked. */
  readonly asked: HookFile;
  readonly content: string;
  /** Of the file when it was loaded last. */
  readonly signature: string;
  readonly configured: Configured;
}

/**
 * Asks files for the configuration of their hooks, a few at a time. The answer is kept for as long as the content of
 * the file stays the same; after a failure the file is asked again. A file that is written again with the same content has
 * the same hooks: platforms copy shared hooks into their modules in each converge.
 */
export class HookLoader {
  readonly #options: LoaderOptions;
  readonly #turns = new PQueue({ concurrency: AT_ONCE });
  readonly #kept = new Map<string, Kept>();

  constructor(options: LoaderOptions) {
    this.#options = options;
  }

  /**
   * The hooks of a file: one, or those of a batch file. Never throws: what is wrong is the `problem`. `module` is
   * undefined for global hooks.
   */
  async load(file: HookFile, module?: string): Promise<LoadedHooks> {
    const key = `${module ?? "global"}:${file.name} ${file.path}`;
    const kept = this.#kept.get(key);
    if (kept?.signature === file.signature) return toHooks(kept.asked, module, kept.configured);
    const content = contentOf(file);
    if (kept?.content === content) {
      this.#kept.set(key, { ...kept, signature: file.signature });
      return toHooks(kept.asked, module, kept.configured);
    }
    const kind = module === undefined ? "global" : "module";
    const queue = queueOf(this.#options.moduleQueues ?? "main", module);
    const answer = await this.#turns.add(() => askConfig(file, { kind, queue, module }, this.#options));
    if ("failure" in answer) return { problem: failureProblem(file, answer) };
    if ("errors" in answer) return { problem: configProblem(file, answer.errors.join("; "), answer.key) };
    this.#kept.set(key, { asked: file, content, signature: file.signature, configured: answer });
    return toHooks(file, module, answer);
  }
}

function contentOf({ path, signature }: HookFile): string {
  try {
    const { size, mode } = statSync(path);
    return size > LARGEST_READ ? signature : hashFiles([[String(mode), readPlain(path)]]);
  } catch {
    return signature;
  }
}

function toHooks(file: HookFile, module: string | undefined, { hooks, warnings }: Configured): LoadedHooks {
  return { hooks: hooks.map((hook) => toHook(file, module, hook)), warnings };
}

/** A hook of a batch file has the file, the name that it gives itself, and its number in its own name. */
function toHook(file: HookFile, module: string | undefined, { config, name, item }: ConfiguredHook): Hook {
  const separator = module === undefined ? "-" : ":";
  const own = item === undefined ? file.name : [file.name, name, item].join(separator);
  const hook = { ...file, name: own, id: `${module ?? "global"}:${own}`, module, config };
  return item === undefined ? hook : { ...hook, item };
}

/** The problem of a file that failed when it was asked. */
export function failureProblem(
  file: HookFile,
  { key, failure }: { readonly key: Question; readonly failure: string },
): Problem {
  const what = key === "hook list" ? "a list of its hooks" : "its configuration";
  return {
    file: file.path,
    key,
    message: `the hook failed: ${failure}`,
    remedy: `it must print ${what} to stdout and end with exit code 0`,
  };
}

/** The problem of a hook that printed a wrong configuration. */
export function configProblem(file: HookFile, message: string, key: string): Problem {
  return { file: file.path, key, message, remedy: "correct what the hook prints" };
}
