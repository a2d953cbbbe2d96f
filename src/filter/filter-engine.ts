/** Compiles and runs jq filters (docs/HOOKS.md, "jq filters"). */

import type { Clock, Logger } from "../lib/index.ts";
import type { Json, JsonObject } from "../model/index.ts";
import { FilterError } from "./filter-error.ts";
import { resultOf, withoutJq, type Filter } from "./evaluate.ts";
import { checkSyntax, findJq, type Jq } from "./jq.ts";
import { JqWorker } from "./worker.ts";

export interface FilterEngineOptions {
  /** `--jq-bin`; undefined = `jq` on PATH, else node-jq's. */
  readonly jqBin: string | undefined;
  /** The operator's environment: PATH, TZ and node-jq's variables are read from it; filters do not see it. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For one evaluation; default 5 s. */
  readonly timeLimitMs?: number;
  /** jq processes that are kept for idle filters; default 32. */
  readonly maxIdle?: number;
}

export const TIME_LIMIT_MS = 5000;
const MAX_IDLE = 32;
const MAX_CACHED = 1000;

/** Compiles and runs jq filters: plain paths in JavaScript, all others in long-lived jq processes. */
export class FilterEngine {
  readonly #options: FilterEngineOptions;
  /** Compiled filters by text; the last one used is the last entry. */
  readonly #filters = new Map<string, Promise<Filter>>();
  /** Workers that have a process; the last one started or used is the last entry. */
  readonly #workers = new Set<JqWorker>();
  #jq: Promise<Jq> | undefined;
  #closed = false;

  constructor(options: FilterEngineOptions) {
    this.#options = options;
  }

  /** Checks and compiles a filter; equal texts share the result. Rejects with FilterError. */
  compile(text: string): Promise<Filter> {
    const known = this.#filters.get(text);
    const filter = known ?? this.#compile(text);
    this.#filters.delete(text);
    this.#filters.set(text, filter);
    if (known === undefined) {
      this.#trim();
      // A filter that did not compile is tried again next time: jq may have been missing.
      filter.catch(() => this.#forget(text, filter));
    }
    return filter;
  }

  /** Ends every jq process; evaluations under way fail. */
  close(): void {
    this.#closed = true;
    for (const worker of this.#workers) worker.close();
    this.#workers.clear();
    this.#filters.clear();
  }

  async #compile(text: string): Promise<Filter> {
    const namesManagedFields = text.includes("managedFields");
    const plain = withoutJq(text);
    if (plain !== undefined) return { text, namesManagedFields, evaluate: plain };
    const jq = await this.#findJq();
    await checkSyntax(jq, text, this.#options.env);
    const worker = this.#worker(jq, text);
    const evaluate = async (object: JsonObject): Promise<Json> => {
      if (this.#closed) throw new FilterError("engine", "the filter engine is closed");
      return resultOf(await worker.evaluate(object));
    };
    return { text, namesManagedFields, evaluate };
  }

  #worker(jq: Jq, text: string): JqWorker {
    const { clock, timeLimitMs = TIME_LIMIT_MS } = this.#options;
    return new JqWorker({ jq, text, clock, timeLimitMs, onStart: (worker) => this.#started(worker) });
  }

  #started(worker: JqWorker): void {
    this.#workers.delete(worker);
    this.#workers.add(worker);
    let excess = this.#workers.size - (this.#options.maxIdle ?? MAX_IDLE);
    for (const other of this.#workers) {
      if (excess <= 0) return;
      if (other.busy || other === worker) continue;
      other.park();
      this.#workers.delete(other);
      excess--;
    }
  }

  async #findJq(): Promise<Jq> {
    const { jqBin, env, logger } = this.#options;
    this.#jq ??= findJq(jqBin, env).then((jq) => {
      logger.debug("jq found", { file: jq.file, version: jq.version });
      return jq;
    });
    try {
      return await this.#jq;
    } catch (error) {
      this.#jq = undefined;
      throw error;
    }
  }

  #trim(): void {
    const [oldest] = this.#filters.keys();
    if (this.#filters.size > MAX_CACHED && oldest !== undefined) this.#filters.delete(oldest);
  }

  #forget(text: string, filter: Promise<Filter>): void {
    if (this.#filters.get(text) === filter) this.#filters.delete(text);
  }
}
