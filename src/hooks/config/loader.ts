/** Loads hooks: asks their files for the configuration and keeps the answers. */

import { statSync } from "node:fs";

import PQueue from "p-queue";

import { hashFiles, readPlain, systemClock, type Clock } from "../../lib/index.ts";
import { queueOf } from "../../model/index.ts";
import type { Hook, HookFile, ModuleQueues, Problem } from "../../model/index.ts";
import { askConfig, type AskOptions, type ConfigAnswer, type Question } from "./ask.ts";
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
/** A file that hangs delays no more than one reload in this time. */
const ASK_AGAIN_MS = 10 * 60_000;

interface Kept {
  /** The file when it was asked. */
  readonly asked: HookFile;
  readonly content: string;
  /** Of the file when it was loaded last. */
  readonly signature: string;
  readonly answer: ConfigAnswer;
  /** On the monotonic clock. */
  readonly until: number;
}

/**
 * Asks files for the configuration of their hooks, a few at a time. The answer is kept for as long as the content of
 * the file stays the same; after a failure the file is asked again, ten minutes later where it did not answer in time. A file that is written again with the same content has
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
    const { asked, answer } = await this.#answerOf(file, module);
    if ("failure" in answer) return { problem: failureProblem(file, answer) };
    if ("errors" in answer) return { problem: configProblem(file, answer.errors.join("; "), answer.key) };
    return toHooks(asked, module, answer);
  }

  async #answerOf(file: HookFile, module: string | undefined): Promise<Pick<Kept, "asked" | "answer">> {
    const clock = this.#options.clock ?? systemClock;
    const { signature } = file;
    const key = `${module ?? "global"}:${file.name} ${file.path}`;
    const kept = this.#keptNow(key, clock);
    if (kept?.signature === signature) return kept;
    const content = contentOf(file);
    if (kept?.content === content) {
      this.#kept.set(key, { ...kept, signature });
      return kept;
    }
    const answer = await this.#turns.add(() => this.#ask(file, module));
    const until = keptFor(answer) + clock.monotonic();
    this.#kept.set(key, { asked: file, content, signature, answer, until });
    return { asked: file, answer };
  }

  #keptNow(key: string, clock: Clock): Kept | undefined {
    const kept = this.#kept.get(key);
    return kept === undefined || clock.monotonic() >= kept.until ? undefined : kept;
  }

  #ask(file: HookFile, module: string | undefined): Promise<ConfigAnswer> {
    const kind = module === undefined ? "global" : "module";
    const queue = queueOf(this.#options.moduleQueues ?? "main", module);
    return askConfig(file, { kind, queue, module }, this.#options);
  }
}

/** For how long an answer counts, in milliseconds, while the file stays the same. */
function keptFor(answer: ConfigAnswer): number {
  if ("hooks" in answer) return Infinity;
  return "failure" in answer && answer.timedOut === true ? ASK_AGAIN_MS : 0;
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
