import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, onTestFinished, test, vi } from "vitest";

import { Helm } from "../../../src/helm/binary/helm.ts";
import { divideMemory, HelmPlaces } from "../../../src/helm/binary/memory.ts";
import { silentLogger, systemClock } from "../../../src/base/index.ts";
import type { RunRequest, RunResult } from "../../../src/base/process/index.ts";

const MIB = 1024 * 1024;

test.each<[limit: number | undefined, count: number | undefined, goMemLimit: string]>([
  [undefined, undefined, "128MiB"],
  [4096, 30, "128MiB"],
  [1024, 6, "128MiB"],
  [512, 2, "128MiB"],
  [256, 1, "128MiB"],
  [128, 1, "64MiB"],
])("of %s MiB, helm gets %s times %s", (limit, count, goMemLimit) => {
  const memory = divideMemory(limit && limit * MIB);
  expect(memory).toEqual({ limit: limit && limit * MIB, count, goMemLimit });
  const helms = (count ?? 0) * Number.parseInt(goMemLimit);
  // The operator, with half of a small limit, and all helm processes fit.
  const fits = limit === undefined || Math.min(256, limit / 2) + helms <= limit;
  expect(fits).toBe(true);
});

/** A helm with `count` places, whose processes run until `end` is called. */
function lab(count: number): { helm: Helm; begun: string[]; end: (release: string) => void } {
  const tmpDir = mkdtempSync(join(tmpdir(), "helm-memory-"));
  onTestFinished(() => rmSync(tmpDir, { recursive: true, force: true }));
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const result: RunResult = {
    outcome: "succeeded",
    stdout: "v4.2.4",
    stdoutTruncated: false,
    stderr: "",
    durationMs: 1,
    message: "",
  };
  const run = async ({ args, signal, env }: RunRequest): Promise<RunResult> => {
    if (signal?.aborted === true) return { ...result, outcome: "cancelled" };
    const [verb = "", release = ""] = args ?? [];
    if (verb === "version") return result;
    begun.push(`${release} ${env?.["GOMEMLIMIT"] ?? ""}`);
    await new Promise<void>((resolve) => ends.set(release, resolve));
    return result;
  };
  const helm = new Helm({
    children: { run },
    bin: process.execPath,
    server: "s",
    namespace: "n",
    managedBy: "v1-x",
    timeoutMs: 60_000,
    historyMax: 1,
    validate: false,
    tmpDir,
    env: {},
    logger: silentLogger,
    clock: systemClock,
    places: new HelmPlaces({ count, goMemLimit: "70MiB" }),
  });
  return { helm, begun, end: (release) => ends.get(release)?.() };
}

test("helms of all namespaces together wait for a place; an aborted one does not", async () => {
  const { helm, begun, end } = lab(2);
  const over = new Set<string | undefined>();
  const { signal } = new AbortController();
  const abort = new AbortController();
  const uninstall = (release: string, by = helm, given = signal): Promise<string> =>
    by.uninstall({ release, signal: given }).then(
      () => "done",
      (error: Error) => error.message,
    );
  const other = helm.forNamespace("other", "somebody");
  const beginning = (count: number): Promise<boolean> => vi.waitUntil(() => begun.length === count, 10_000);
  const ended = [uninstall("a"), uninstall("b", other)];
  await beginning(2);
  const aborted = uninstall("c", other, abort.signal);
  ended.push(uninstall("d"), uninstall("e", other));
  abort.abort(new Error("enough"));
  expect(await aborted).toMatch(/cancelled: enough/);
  for (const running of [2, 3, 4, 4]) {
    await beginning(running);
    const release = ["a", "b", "d", "e"].find((each) => begun.includes(`${each} 70MiB`) && !over.has(each));
    over.add(release);
    end(release ?? "");
  }
  expect(await Promise.all(ended)).toEqual(["done", "done", "done", "done"]);
});

test("each helm may have the data that the operator leaves of the limit, and what takes no memory", () => {
  const dataOf = (limit?: number): number | undefined =>
    new HelmPlaces(divideMemory(limit && limit * MIB)).dataLimit;
  const own = process.memoryUsage.rss() / MIB;
  expect(dataOf()).toBeUndefined();
  expect(dataOf(1)).toBe(128 * MIB);
  const left = (dataOf(10_000) ?? 0) / MIB - 128;
  // The test itself takes and returns memory.
  expect(Math.abs(10_000 - own - left)).toBeLessThan(50);
});
