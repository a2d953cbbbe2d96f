import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, test, vi } from "vitest";

import { compared, compareRounds } from "../../scripts/bench/compare.mjs";
import { limitCpus } from "../../scripts/bench/cpus.mjs";
import { generatedCharts } from "../../scripts/bench/public-charts.mjs";
import { treeOf } from "../../scripts/bench/tree.mjs";
import { imageEnvironment } from "../../scripts/bench/revision.mjs";

test("a difference is clear when nine of ten pairs of runs agree on it", () => {
  const before = [100, 101, 102, 103, 104];
  expect(compared(before, [90, 91, 92, 93, 101])).toMatchObject({ clear: true });
  expect(compared(before, [90, 91, 92, 102, 103])).toMatchObject({ clear: false });
  expect(compared([90, 91, 92, 93, 101], before)).toMatchObject({ clear: true });
  expect(compared(before, before)).toMatchObject({ clear: false, change: 0 });
  expect(compared([0, 0, 0], [0, 0, 0])).toMatchObject({ clear: false, change: undefined });
});

test("a comparison has the medians and spreads of both, for each figure that both have", () => {
  const row = (what: string, value?: number) => ({ scenario: "one", what, unit: "ms", value });
  const rounds = [1, 2, 3].map((round) => ({
    before: [row("time", 10 * round), row("only before", 1), row("memory")],
    after: [row("memory", round), row("time", round)],
  }));
  const before = { median: 20, least: 10, most: 30 };
  const after = { median: 2, least: 1, most: 3 };
  expect(compareRounds(rounds)).toEqual([
    { scenario: "one", what: "time", unit: "ms", before, after, change: -0.9, clear: true },
  ]);
});

test("the bench runs a build with the variables that its image sets for the operator", () => {
  const variables = imageEnvironment(".");
  expect(Object.keys(variables).length).toBeGreaterThan(2);
  expect(variables).toMatchObject({ MALLOC_ARENA_MAX: "1" });
  expect(Object.values(variables)).not.toContain(undefined);
});

test("a generated chart has the numbers of the public one", () => {
  const charts = generatedCharts();
  expect(charts).toHaveLength(39);
  for (const { name, templates, objects, crds, kib, files } of charts) {
    const texts = Object.entries(files).flatMap(([path, text]) =>
      /^templates\/(?!tests\/)/.test(path) ? [text] : [],
    );
    const rendered = texts.filter((text) => text.startsWith("apiVersion:"));
    const definitions = rendered.filter((text) => text.includes("kind: CustomResourceDefinition"));
    const bytes = Object.values(files).reduce((sum, text) => sum + text.length, 0);
    expect({
      name,
      objects: rendered.length - definitions.length,
      crds: definitions.length,
      templates: texts.length,
      isAlike: Math.abs(bytes / 1024 - kib) < 5 + kib / 10,
    }).toEqual({
      name,
      objects,
      crds,
      // With the file of helpers.
      templates: Math.max(templates, objects + crds + 1),
      isAlike: true,
    });
  }
});

test("a share of the processors is a quota of the cgroup, in both versions", () => {
  const root = mkdtempSync(join(tmpdir(), "cgroup-"));
  mkdirSync(join(root, "cpu,cpuacct"));
  const first = limitCpus(0.5, root);
  const dir = join(root, "cpu,cpuacct", `bench-${process.pid}`);
  expect(readFileSync(join(dir, "cpu.cfs_quota_us"), "utf8")).toBe("50000");
  expect(first.words.join(" ")).toContain(`${dir}/cgroup.procs`);
  writeFileSync(join(root, "cgroup.controllers"), "cpu memory");
  writeFileSync(join(root, "cgroup.subtree_control"), "memory");
  limitCpus(1, root);
  expect(readFileSync(join(root, "cgroup.subtree_control"), "utf8")).toBe("+cpu");
  expect(readFileSync(join(root, `bench-${process.pid}`, "cpu.max"), "utf8")).toBe("100000 100000");
  rmSync(root, { recursive: true });
});

test("processes below a process count as its own", async () => {
  const child = spawn("/bin/sh", ["-c", "sleep 60 & wait"], { stdio: "ignore" });
  const pid = child.pid ?? 0;
  await vi.waitUntil(() => treeOf(pid).length === 2, 10_000);
  expect(treeOf(process.pid)).toEqual(expect.arrayContaining(treeOf(pid)));
  for (const each of treeOf(pid)) process.kill(each, "SIGKILL");
});
