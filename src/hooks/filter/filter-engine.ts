/** Compiles and runs jq filters (docs/reference/hooks.md, "jq filters"). */

import type { Clock, Logger } from "../../base/index.ts";
import type { Json, JsonObject } from "../../base/model/index.ts";
import type { Children } from "../../base/process/index.ts";
import { FilterError } from "./lexer.ts";
import { toFilterResult, compileWithoutJq, type Filter } from "./evaluate.ts";
import { restoreNumbers } from "./exact-numbers.ts";
import { checkSyntax, findJq, type Jq } from "./jq.ts";
import { JqProcess } from "./jq-process.ts";

export interface FilterEngineOptions {
  readonly children: Children;
  /** `--jq-bin`; undefined = `jq` on PATH, else node-jq's. */
  readonly jqBin: string | undefined;
  /** The operator's environment: PATH and TZ are read from it; filters do not see it. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For one evaluation; default 5 s. */
  readonly timeLimitMs?: number;
  /** Most jq processes of idle filters; default 32. */
  readonly maxIdle?: number;
}

export const TIME_LIMIT_MS = 5000;
const MAX_IDLE_PROCESSES = 32;
const MAX_CACHED_FILTERS = 1000;

/** Compiles and runs jq filters: plain paths in JavaScript, all others in long-lived jq processes. */
export class FilterEngine {
  readonly #options: FilterEngineOptions;
  /** Compiled filters by text; the last one used is the last entry. */
  readonly #filters = new Map<string, Promise<Filter>>();
  /** Running processes; the last one started is the last entry. */
  readonly #processes = new Set<JqProcess>();
  #jq: Promise<Jq> | undefined;
  #closed = false;

  constructor(options: FilterEngineOptions) {
    this.#options = options;
  }

  /** Checks and compiles a filter; equal texts share the result, and so one jq process. Rejects with FilterError. */
  compile(text: string): Promise<Filter> {
    const cachedFilter = this.#filters.get(text);
    const filter = cachedFilter ?? this.#compile(text);
    // A Map keeps the order of insertion: moves the filter to the end, so that the first entry is the longest unused.
    this.#filters.delete(text);
    this.#filters.set(text, filter);
    if (cachedFilter !== undefined) return filter;
    const [longestUnused] = this.#filters.keys();
    const isFull = this.#filters.size > MAX_CACHED_FILTERS;
    if (isFull && longestUnused !== undefined) this.#filters.delete(longestUnused);
    // A filter that did not compile is tried again next time: jq may have been missing.
    filter.catch(() => {
      if (this.#filters.get(text) === filter) this.#filters.delete(text);
    });
    return filter;
  }

  /** Ends every jq process; pending evaluations fail. */
  close(): void {
    this.#closed = true;
    for (const process of this.#processes) process.close();
    this.#processes.clear();
    this.#filters.clear();
  }

  /** Compiles to JavaScript if possible; otherwise checks the syntax with jq and runs the filter there. */
  async #compile(text: string): Promise<Filter> {
    const namesManagedFields = text.includes("managedFields");
    const evaluateInJavaScript = compileWithoutJq(text);
    if (evaluateInJavaScript !== undefined)
      return { text, namesManagedFields, evaluate: evaluateInJavaScript };
    const jq = await this.#findJq();
    await checkSyntax(jq, text);
    const { clock, timeLimitMs = TIME_LIMIT_MS } = this.#options;
    const onStart = (started: JqProcess): void => this.#stopExcessIdleProcesses(started);
    // Starts with the first evaluation, and again after it was stopped while idle.
    const process = new JqProcess({ jq, text, clock, timeLimitMs, onStart });
    const evaluate = async (object: JsonObject): Promise<Json> => {
      if (this.#closed) throw new FilterError("engine", "the filter engine is closed");
      return restoreNumbers(toFilterResult(await process.evaluate(object)), object);
    };
    return { text, namesManagedFields, evaluate };
  }

  /** Records a process that starts, and ends idle ones, the oldest first, if too many run: each takes some MB of memory. */
  #stopExcessIdleProcesses(started: JqProcess): void {
    // A Set keeps the order of insertion: moves the process to the end.
    this.#processes.delete(started);
    this.#processes.add(started);
    let excess = this.#processes.size - (this.#options.maxIdle ?? MAX_IDLE_PROCESSES);
    for (const other of this.#processes) {
      if (excess <= 0) return;
      if (other.isBusy || other === started) continue;
      other.stopIdleProcess();
      this.#processes.delete(other);
      excess--;
    }
  }

  /** Finds jq once. After a failure, the next call tries again. */
  async #findJq(): Promise<Jq> {
    const { jqBin, env, children, logger } = this.#options;
    this.#jq ??= findJq(jqBin, env, children).then((jq) => {
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
}
