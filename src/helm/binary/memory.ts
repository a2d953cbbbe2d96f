/** How many helm processes run at once, and how much memory each may take, so that the operator and all of them fit into the limit of its Pod. */

import { totalmem } from "node:os";

import { ParallelLimit } from "../../base/index.ts";

const MIB = 1024 * 1024;
/** What the operator itself takes with hundreds of modules, at most half of the limit. */
const OPERATOR_BYTES = 256 * MIB;
/** What helm takes without collecting garbage: less costs processor time only for charts of several MiB. */
const HELM_BYTES = 128 * MIB;

/** What is measured and takes no memory: data that Go has mapped for a large chart and not used (80 MiB), and files that the operator has mapped. */
const UNUSED_BYTES = 128 * MIB;

/** The share of memory of helm processes. */
export interface HelmMemory {
  /** The limit in bytes that they and the operator share; undefined = none. */
  readonly limit?: number | undefined;
  /** Undefined = any number of them. */
  readonly count: number | undefined;
  /** `GOMEMLIMIT` of each, above which it collects garbage. */
  readonly goMemLimit: string;
}

/** Divides the memory below `limit`, in bytes, where there is one. */
export function divideMemory(limit: number | undefined): HelmMemory {
  const left = limit === undefined ? undefined : limit - Math.min(OPERATOR_BYTES, limit / 2);
  const count = left === undefined ? undefined : Math.max(1, Math.floor(left / HELM_BYTES));
  const bytes = Math.min(HELM_BYTES, left ?? HELM_BYTES);
  return { limit, count, goMemLimit: `${Math.floor(bytes / MIB)}MiB` };
}

/** The memory limit of this process's cgroup in bytes; undefined where there is none. */
function readMemoryLimit(): number | undefined {
  const limit = process.constrainedMemory();
  return limit > 0 && limit < totalmem() ? limit : undefined;
}

/** Lets as many helm processes of this operator run at once as fit into its memory. */
export class HelmPlaces {
  readonly goMemLimit: string;
  readonly #memoryLimit: number | undefined;
  readonly #limit: ParallelLimit | undefined;

  constructor({ limit, count, goMemLimit }: HelmMemory = divideMemory(readMemoryLimit())) {
    this.goMemLimit = goMemLimit;
    this.#memoryLimit = limit;
    this.#limit = count === undefined ? undefined : new ParallelLimit(count);
  }

  /**
   * The data that a helm may have, in bytes: what the operator leaves of the limit. With more, the system would kill helm or, as in a Pod, all
   * processes. Undefined = any.
   */
  get dataLimit(): number | undefined {
    if (this.#memoryLimit === undefined) return undefined;
    return Math.max(0, this.#memoryLimit - process.memoryUsage.rss()) + UNUSED_BYTES;
  }

  /** Runs `work` when there is a place for it, or at once when the signal is aborted: then it starts no process. */
  run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return this.#limit === undefined ? work() : this.#limit.run(signal, work);
  }
}
