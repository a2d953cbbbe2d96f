/**
 * Loads hooks: queries their files for the configuration and caches the answers. An answer has the hooks of a file (several, if
 * it is a batch file), or the errors in its configuration, or the failure of the query.
 */

import PQueue from "p-queue";

import { attempt, oneLine, sleep, systemClock } from "../../base/index.ts";
import { type Clock } from "../../base/index.ts";
import { ModuleQueues, type Hook, type HookFile, type Problem } from "../../base/model/index.ts";
import { digestFile } from "../../modules/index.ts";
import type { ModuleActor } from "../actor.ts";
import { confineQueues } from "./confine-queues.ts";
import { queryConfig, SLOW_MS, type HookQueryOptions, type ConfigAnswer } from "./query-config.ts";
import { type QueryWords } from "./query-config.ts";
import type { ConfiguredHook } from "./batch-config.ts";

export interface LoaderOptions extends Omit<HookQueryOptions, "signal"> {
  readonly moduleQueues?: ModuleQueues;
  /** Returns the identity of a module's hooks; undefined = the operator's. Throws if it is unknown: then no hook is called. */
  readonly actorOf?: ((module: string) => ModuleActor | undefined) | undefined;
}

export type LoadedHooks =
  | { readonly hooks: readonly Hook[]; readonly warnings: readonly string[] }
  | { readonly problem: Problem };

const AT_ONCE = 4;
/** Interval of queries to a file that hangs, so that it delays at most one converge in this time. */
const RETRY_HANGING_MS = 10 * 60_000;

interface CachedAnswer {
  /** The file as it was queried: its hooks keep this object, so that an unchanged file means unchanged hooks. */
  readonly queriedFile: HookFile;
  readonly content: string;
  /** Signature of the file at the last load. */
  readonly signature: string;
  readonly answer: ConfigAnswer;
  /** Expiry of the cached answer, on the monotonic clock. */
  readonly expiresAt: number;
}

/**
 * Queries files for the configuration of their hooks, a few at a time. Caches the answer while the content of the file
 * stays the same, since platforms copy shared hooks into their modules in each converge. Queries a failed file again,
 * after a time-out ten minutes later.
 */
export class HookLoader {
  readonly #options: LoaderOptions;
  readonly #limiter = new PQueue({ concurrency: AT_ONCE });
  readonly #cache = new Map<string, CachedAnswer>();

  constructor(options: LoaderOptions) {
    this.#options = options;
  }

  /**
   * The hook of a file, or the hooks of a batch file. Errors are in `problem`. `module` is undefined for global hooks. Throws only the
   * reason of `signal`, which ends the query.
   */
  async load(file: HookFile, module?: string, signal?: AbortSignal): Promise<LoadedHooks> {
    const { queriedFile, answer } = await this.#findOrQueryAnswer(file, module, signal);
    if ("failure" in answer) return { problem: toFailureProblem(file, answer) };
    if ("errors" in answer) return { problem: toConfigProblem(file, answer.errors.join("; "), answer.key) };
    const { hooks, warnings } = answer;
    return { hooks: hooks.map((hook) => toHook(queriedFile, module, hook)), warnings };
  }

  /**
   * The cached answer while signature (size and times) or content of the file stay the same; otherwise queries the file and
   * caches the answer. An equal signature saves reading the file.
   */
  async #findOrQueryAnswer(
    file: HookFile,
    module: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Pick<CachedAnswer, "queriedFile" | "answer">> {
    const clock = this.#options.clock ?? systemClock;
    const { signature } = file;
    // The account of a module limits the queues of its hooks.
    const hasAccount = attempt(() => this.#actorOf(module)) !== undefined;
    const key = `${module ?? "global"}:${file.name} ${file.path} ${hasAccount}`;
    const cached = this.#findCached(key, clock);
    if (cached?.signature === signature) return cached;
    const content = digestFile(file);
    if (cached?.content === content) {
      this.#cache.set(key, { ...cached, signature });
      return cached;
    }
    const answer = await this.#queryLimited(clock, () => this.#query(file, module, signal));
    // The answer of a file that was ended says nothing about it.
    signal?.throwIfAborted();
    const expiresAt = clock.monotonic() + getAnswerLifetimeMs(answer);
    this.#cache.set(key, { queriedFile: file, content, signature, answer, expiresAt });
    return { queriedFile: file, answer };
  }

  /** Queries a file under the concurrency limit; a file frees its slot after `SLOW_MS`, so that hanging files do not add up. */
  async #queryLimited(clock: Clock, startQuery: () => Promise<ConfigAnswer>): Promise<ConfigAnswer> {
    const sleeping = new AbortController();
    const query = await this.#limiter.add(async () => {
      const answer = startQuery();
      await Promise.race([answer, sleep(clock, SLOW_MS, sleeping.signal).catch(() => {})]);
      sleeping.abort();
      // In an object, because a returned promise would keep the slot until the answer.
      return { answer };
    });
    return query.answer;
  }

  /** The identity of the hooks of a module; undefined = the operator's. Throws while it is unknown. */
  #actorOf(module: string | undefined): ModuleActor | undefined {
    return module === undefined ? undefined : this.#options.actorOf?.(module);
  }

  #findCached(key: string, clock: Clock): CachedAnswer | undefined {
    const cached = this.#cache.get(key);
    return cached === undefined || clock.monotonic() >= cached.expiresAt ? undefined : cached;
  }

  /** Queries a file under the account of its module. Never throws: a missing account is a failure in the answer. */
  async #query(
    file: HookFile,
    module: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<ConfigAnswer> {
    const kind = module === undefined ? "global" : "module";
    const { moduleQueues = new ModuleQueues() } = this.#options;
    const queue = moduleQueues.queueOf(module);
    try {
      const actor = this.#actorOf(module);
      const answer = await queryConfig(file, { kind, queue, module }, { ...this.#options, actor, signal });
      if (actor === undefined || module === undefined || !("hooks" in answer)) return answer;
      return { key: "--config", ...confineQueues(answer, { module, ownQueue: queue }) };
    } catch (error) {
      // The account of the module is not known.
      return { key: "--config", failure: oneLine(error) };
    }
  }
}

/** Lifetime of a cached answer in milliseconds: a failure is not cached, because it may pass, except a time-out, because the query of a hanging file takes long. */
function getAnswerLifetimeMs(answer: ConfigAnswer): number {
  if ("hooks" in answer) return Infinity;
  return "failure" in answer && answer.timedOut === true ? RETRY_HANGING_MS : 0;
}

/**
 * A hook of a file. A file with one hook gives it its name; a batch file has several: the name of each combines the file,
 * the name in its configuration and its number, joined as the Go operator joins them.
 */
function toHook(file: HookFile, module: string | undefined, { config, name, item }: ConfiguredHook): Hook {
  const separator = module === undefined ? "-" : ":";
  const fullName = item === undefined ? file.name : [file.name, name, item].join(separator);
  const hook = { ...file, name: fullName, id: `${module ?? "global"}:${fullName}`, module, config };
  return item === undefined ? hook : { ...hook, item };
}

/** The problem of a file that failed when it was queried. */
export function toFailureProblem(
  file: HookFile,
  { key, failure }: { readonly key: QueryWords; readonly failure: string },
): Problem {
  const output = key === "hook list" ? "a list of its hooks" : "its configuration";
  const remedy = `it must print ${output} to stdout and end with exit code 0`;
  return { file: file.path, key, message: `the hook failed: ${failure}`, remedy };
}

/** The problem of a file that printed an invalid configuration; `key` names where it is. */
export function toConfigProblem(file: HookFile, message: string, key: string): Problem {
  return { file: file.path, key, message, remedy: "correct what the hook prints" };
}
