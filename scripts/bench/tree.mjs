// What an operator and all its child processes take together.
import { readdirSync, readFileSync } from "node:fs";

/** Asking more often is work that shows: the system counts all pages each time. */
const INTERVAL_MS = 200;

/**
 * Measures until `stop`, which returns `peak`: the most memory in MB (10^6 bytes) that all processes had at one time, where a
 * page that several share counts once. Undefined where there is no /proc.
 */
export function measureTree(pid) {
  let peak;
  const sample = () => {
    const sum = treeMegabytes(pid);
    if (sum > 0) peak = Math.max(peak ?? 0, sum);
  };
  const timer = setInterval(sample, INTERVAL_MS);
  return {
    stop() {
      clearInterval(timer);
      return { peak };
    },
  };
}

/** What a process and all below it take now, in MB. */
export function treeMegabytes(pid) {
  return treeOf(pid).reduce((total, each) => total + (proportionalBytes(each) ?? 0), 0) / 1e6;
}

/** A process and all below it, as they are now. */
export function treeOf(pid) {
  return [pid, ...childrenOf(pid).flatMap(treeOf)];
}

function childrenOf(pid) {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
    );
  } catch {
    // It has ended.
    return [];
  }
}

/** Resident memory of a process, with its share of what it shares; undefined when it has ended. */
function proportionalBytes(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
    return Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1]) * 1024;
  } catch {
    return undefined;
  }
}
