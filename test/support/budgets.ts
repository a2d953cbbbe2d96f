import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";

import { writeModules } from "../../scripts/bench/modules.mjs";
import { countingHelm } from "../../scripts/operator.mjs";
import budgets from "../budgets.json" with { type: "json" };
import { cluster, eventually, freshNamespace, helmUnderTest } from "./cluster.ts";
import { retainedHeap } from "./inspector.ts";
import { startOperator } from "./operator.ts";
import type { OperatorProcess } from "./operator.ts";

// What the operator may use at most (test/budgets.json). Figures that depend on the speed of the machine are in `npm run bench`.

type Budget = keyof typeof budgets;

export const MIB = 1024 * 1024;
const REST = { intervalMs: 500 };

/** Compares all figures of one test with their budgets at once, so that a change of several is seen in one run. */
export function compareWithBudgets(figures: Partial<Record<Budget, number>>): void {
  const over = Object.entries(figures).flatMap(([what, figure]) => {
    const most = budgets[what as Budget];
    return figure > most ? [`${what}: ${figure.toFixed(1)} instead of at most ${most}`] : [];
  });
  console.info(figures);
  expect(over).toEqual([]);
}

const residentMiB = ({ pid }: OperatorProcess): number => {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s*(\d+) kB/m.exec(status)?.[1]) / 1024;
};

/** Paths that are written as time passes, and are therefore not compared. */
const BY_TIME = /\/(status|leases|leases\/\{name\}|events)$/;

/** Requests of the operator since its start: neither those of helm nor those that depend on time. */
async function requests(operator: OperatorProcess): Promise<number> {
  const { body } = await operator.http("/metrics");
  const series =
    /^addon_operator_kubernetes_client_request_latency_seconds_count\{.*url="([^"]*)".*\} (\d+)$/gm;
  const counted = [...body.matchAll(series)].filter(([, path = ""]) => !BY_TIME.test(path));
  return counted.reduce((sum, [, , count]) => sum + Number(count), 0);
}

async function lab(count: number) {
  const dir = mkdtempSync(join(tmpdir(), "budgets-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const namespace = await freshNamespace("budgets");
  mkdirSync(join(dir, "modules"));
  const modulesDir = writeModules(join(dir, "modules"), count);
  const helm = countingHelm(dir, helmUnderTest());
  const runs = (): number => readFileSync(helm.file, "utf8").split("\n").length - 1;
  const start = () =>
    startOperator({
      namespace,
      modulesDir,
      helm: helm.path,
      env: { NODE_OPTIONS: "--inspect-port=127.0.0.1:0" },
    });
  /** Everything is done and written: no request, no process for a second. */
  const rest = async (operator: OperatorProcess): Promise<void> => {
    await operator.waitReady(240_000);
    let before = -1;
    const isAtRest = async (): Promise<boolean> => {
      const now = (await requests(operator)) + runs();
      const isSame = now === before;
      before = now;
      return isSame;
    };
    await eventually(isAtRest, "it is at rest", { timeoutMs: 60_000, intervalMs: 1500 });
  };
  return { namespace, start, runs, rest };
}

/** Installs so many modules, edits one of them, and starts the operator again. Compares what each of the three costs with its budget. */
export async function measureModules(count: 20 | 200): Promise<void> {
  const { namespace, start, runs, rest } = await lab(count);
  const first = await start();
  await rest(first);
  const converged = { requests: await requests(first), runs: runs() };
  const patch = JSON.stringify({ data: { benchM001: "text: second\n" } });
  await cluster().kubectl([
    "patch",
    "configmap",
    "addon-operator",
    "-n",
    namespace,
    "--type=merge",
    "-p",
    patch,
  ]);
  const text = ["get", "configmap", "bench-m001", "-n", namespace, "-o", "jsonpath={.data.text}"];
  await eventually(async () => (await cluster().kubectl(text)) === "second", "the edit", {
    timeoutMs: 60_000,
  });
  await rest(first);
  const edited = { requests: (await requests(first)) - converged.requests, runs: runs() - converged.runs };
  await first.stop();
  const before = runs();
  const second = await start();
  await rest(second);
  const restarted = { requests: await requests(second), runs: runs() - before };
  const resident = budgets[`${count} modules: resident at rest, MiB`];
  // Two seconds after the last work it returns memory. What stays too large is in the comparison.
  await eventually(() => residentMiB(second) <= resident, "memory is returned", REST).catch(() => {});
  const residentAtRest = residentMiB(second);
  const heap = await retainedHeap(second);
  compareWithBudgets({
    [`${count} modules: helm processes of a first converge`]: converged.runs,
    [`${count} modules: requests of a first converge`]: converged.requests,
    [`${count} modules: helm processes of an edit`]: edited.runs,
    [`${count} modules: requests of an edit`]: edited.requests,
    [`${count} modules: helm processes of a restart`]: restarted.runs,
    [`${count} modules: requests of a restart`]: restarted.requests,
    [`${count} modules: resident at rest, MiB`]: residentAtRest,
    [`${count} modules: heap at rest, MiB`]: heap / MIB,
  });
}
