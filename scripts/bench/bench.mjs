// What a scenario works with.
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../eventually.mjs";
import { countingHelm, startOperator } from "../operator.mjs";
import { apiOf } from "./api.mjs";
import { measureTree } from "./tree.mjs";

export { median } from "./compare.mjs";

/** What a thousand modules may take. */
const PATIENCE_MS = 600_000;

let namespaces = 0;

/** `program`: the bundle and its environment (`revision.mjs`), or another operator (`peer: true`); `words` of a cgroup before it. */
export function bench(cluster, program) {
  const api = apiOf(cluster.kubeconfig);
  const cleanups = [];
  const dir = () => {
    const path = mkdtempSync(join(tmpdir(), "bench-"));
    // Hooks under user ids of their own must reach it.
    chmodSync(path, 0o755);
    cleanups.push(() => rmSync(path, { recursive: true, force: true }));
    return path;
  };
  return {
    cluster,
    api,
    dir,
    program,
    /** Ends something with the scenario. */
    cleanup: (end) => void cleanups.push(end),
    /** Resolves when `check` returns true. */
    until: (check, what) => eventually(check, what, { timeoutMs: PATIENCE_MS, intervalMs: 25 }),
    async namespace() {
      const name = `bench-${(namespaces += 1)}`;
      await api.send("POST", "/api/v1/namespaces", { metadata: { name } });
      await api.send("POST", `/api/v1/namespaces/${name}/configmaps`, {
        metadata: { name: "addon-operator" },
      });
      return name;
    },
    /** Starts the bundle; `readyMs` resolves to the milliseconds from its start until /readyz answered 200, asked every `intervalMs`. */
    async start(options) {
      const from = performance.now();
      const { kubeconfig } = cluster;
      const operator = await startOperator({ kubeconfig, ...program, ...options });
      cleanups.push(() => operator.kill9());
      const readyMs = async (intervalMs = 5) => {
        await operator.waitReady(PATIENCE_MS, intervalMs);
        return performance.now() - from;
      };
      return { operator, readyMs };
    },
    /** A helm that counts; `taken()` is the number of processes since the last call. */
    counting() {
      const { path, file } = countingHelm(dir(), cluster.bin.helm);
      let seen = 0;
      const taken = () => {
        const all = readFileSync(file, "utf8").split("\n").length - 1;
        const since = all - seen;
        seen = all;
        return since;
      };
      return { helm: path, file, taken };
    },
    memory,
    measureTree,
    cpuMs,
    treeCpuMs,
    quiet,
    apiServerRests: () => apiServerRests(cluster),
    async end() {
      for (const cleanup of cleanups.reverse()) await cleanup();
      api.close();
    },
  };
}

/** Resolves when no task waits or runs, within 25 ms: asking for the whole queue more often is work that shows. */
function quiet(operator) {
  const check = async () => {
    const { body } = await operator.http("/queue?output=json");
    return JSON.parse(body).summary.totalTasks === 0;
  };
  return operator.until(check, "nothing waits or runs", { timeoutMs: PATIENCE_MS, intervalMs: 25 });
}

/**
 * Resolves when the API server has used less than a twentieth of a processor for 5 s. Some seconds after CRDs have changed, it
 * builds its OpenAPI documents again, which occupies a processor for about a second.
 */
async function apiServerRests({ pids }) {
  const pid = pids()["kube-apiserver"];
  const usedMs = () => cpuMs({ pid }) ?? 0;
  let [before, quietSeconds] = [usedMs(), 0];
  const check = () => {
    const now = usedMs();
    quietSeconds = now - before < 50 ? quietSeconds + 1 : 0;
    before = now;
    return quietSeconds >= 5;
  };
  await eventually(check, "the API server rests", { timeoutMs: PATIENCE_MS, intervalMs: 1_000 });
}

/** Resident memory now and at its highest, in MB (10^6 bytes); undefined where there is no /proc. */
export function memory(operator) {
  try {
    const status = readFileSync(`/proc/${operator.pid}/status`, "utf8");
    const of = (name) => (Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1]) * 1024) / 1e6;
    return { resident: of("VmRSS"), peak: of("VmHWM") };
  } catch {
    return { resident: undefined, peak: undefined };
  }
}

/** Processor time taken so far, in ms; undefined where there is no /proc. Linux counts it in steps of 10 ms. */
export function cpuMs(operator) {
  return processorMs(operator)?.own;
}

/** As `cpuMs`: `own`, and `children` that have ended. */
export function processorMs(operator) {
  try {
    const stat = readFileSync(`/proc/${operator.pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [user, system, childrenUser, childrenSystem] = fields
      .slice(11, 15)
      .map((ticks) => Number(ticks) * 10);
    return { own: user + system, children: childrenUser + childrenSystem };
  } catch {
    return undefined;
  }
}

/** Processor time that a process and its children that have ended have taken so far, in ms. */
export function treeCpuMs(operator) {
  const used = processorMs(operator);
  return used && used.own + used.children;
}

/** The value that `share` (0–1) of all do not exceed. */
export function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}
