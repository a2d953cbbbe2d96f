// What a scenario works with.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../eventually.mjs";
import { countingHelm, startOperator } from "../operator.mjs";
import { apiOf } from "./api.mjs";

/** What the image sets for the operator (Dockerfile). */
const AS_IN_IMAGE = {
  MALLOC_ARENA_MAX: "1",
  MALLOC_TRIM_THRESHOLD_: "131072",
  ADDON_OPERATOR_OWN_VARIABLES: "MALLOC_ARENA_MAX,MALLOC_TRIM_THRESHOLD_",
};

let namespaces = 0;

export function bench(cluster) {
  const api = apiOf(cluster.kubeconfig);
  const cleanups = [];
  const dir = () => {
    const path = mkdtempSync(join(tmpdir(), "bench-"));
    cleanups.push(() => rmSync(path, { recursive: true, force: true }));
    return path;
  };
  return {
    cluster,
    api,
    dir,
    async namespace() {
      const name = `bench-${(namespaces += 1)}`;
      await api.send("POST", "/api/v1/namespaces", { metadata: { name } });
      await api.send("POST", `/api/v1/namespaces/${name}/configmaps`, {
        metadata: { name: "addon-operator" },
      });
      return name;
    },
    /** Starts the bundle; `ready` resolves to the milliseconds from its start until /readyz answered 200. */
    async start(options) {
      const from = performance.now();
      const { kubeconfig } = cluster;
      const operator = await startOperator({ kubeconfig, bundle: true, env: AS_IN_IMAGE, ...options });
      cleanups.push(() => operator.kill9());
      const readyMs = async () => {
        await ready(operator);
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
      return { helm: path, taken };
    },
    memory,
    cpuMs,
    quiet,
    async end() {
      for (const cleanup of cleanups.reverse()) await cleanup();
      api.close();
    },
  };
}

async function ready(operator) {
  const over = operator.exit.then((exit) => {
    throw new Error(`the operator ended with ${JSON.stringify(exit)}:\n${operator.log().slice(-4000)}`);
  });
  over.catch(() => {});
  const check = async () => (await operator.http("/readyz")).status === 200;
  const options = { timeoutMs: 600_000, intervalMs: 5, context: () => operator.log().slice(-4000) };
  await Promise.race([eventually(check, "operator ready", options), over]);
}

/** Resolves when no task waits or runs, within 25 ms: asking for the whole queue more often is work that shows. */
function quiet(operator) {
  const check = async () => {
    const { body } = await operator.http("/queue?output=json");
    return JSON.parse(body).summary.totalTasks === 0;
  };
  return eventually(check, "nothing waits or runs", { timeoutMs: 600_000, intervalMs: 25 });
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
  try {
    const stat = readFileSync(`/proc/${operator.pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return undefined;
  }
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The value that `share` (0–1) of all do not exceed. */
export function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}
