import { describe, expect, test } from "vitest";

import { dropHookSeries, recordHookRun, showHookCounters } from "../../../src/report/metrics/inventory.ts";
import { Metrics, SERIES, type Report } from "../../../src/report/metrics/index.ts";
import { sampleGauges } from "../../../src/report/metrics/measure.ts";
import type { ModuleView } from "../../../src/engine/state/index.ts";
import { reportOf } from "./report-of.ts";
import { T0, moduleView, queueOf, viewOf } from "../views.ts";

async function lines(metrics: Metrics, name: string): Promise<string[]> {
  const text = await metrics.renderText();
  return text.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
}

const P = "addon_operator_";
const HOOK = { hook: "hooks/a.sh", binding: "pods", queue: "main", activation: "Kubernetes" };

function reportTo(metrics: Metrics): Report {
  return reportOf({ metrics }).report;
}

describe("the operator's series", () => {
  test("are all declared from the start, under the prefix of the setting", async () => {
    const text = await new Metrics("mine_").renderText();
    for (const { name, type } of Object.values(SERIES))
      expect(text).toContain(`# TYPE mine_${name} ${type}\n`);
    expect(text).not.toContain(P);
  });

  test("are at zero where no label is needed or all are known", async () => {
    const metrics = new Metrics(P);
    expect(await lines(metrics, `${P}live_ticks`)).toEqual([`${P}live_ticks 0`]);
    expect(await lines(metrics, `${P}config_values_errors_total`)).toEqual([
      `${P}config_values_errors_total 0`,
    ]);
    expect(await lines(metrics, `${P}modules_discover_errors_total`)).toEqual([
      `${P}modules_discover_errors_total 0`,
    ]);
    expect(await lines(metrics, `${P}kubernetes_client_watch_errors_total`)).toHaveLength(5);
    const { hook, ...binding } = HOOK;
    showHookCounters(metrics, { module: undefined, hook, bindings: [binding] });
    expect(await lines(metrics, `${P}hook_errors`)).toEqual([
      `${P}hook_errors{module="",hook="hooks/a.sh",binding="pods",queue="main"} 0`,
    ]);
    expect(await lines(metrics, `${P}global_hook_errors_total`)).toHaveLength(1);
    expect(await lines(metrics, `${P}module_hook_errors_total`)).toEqual([]);
  });

  test("the process itself is measured: CPU, memory, open files, event loop, garbage collection", async () => {
    const text = await new Metrics(P).renderText();
    for (const name of [
      "process_cpu_seconds_total",
      "process_resident_memory_bytes",
      "process_open_fds",
      "nodejs_eventloop_lag_seconds",
      "nodejs_gc_duration_seconds",
    ])
      expect(text).toContain(`# TYPE ${name} `);
  });

  test("becoming known again does not set a counter back", async () => {
    const metrics = new Metrics(P);
    reportTo(metrics).moduleRun("m", 1, true);
    metrics.ensureSeries("moduleRunErrors", { module: "m" });
    expect(await lines(metrics, `${P}module_run_errors_total`)).toEqual([
      `${P}module_run_errors_total{module="m"} 1`,
    ]);
  });

  test("a failed module run counts under both names", async () => {
    const metrics = new Metrics(P);
    reportTo(metrics).moduleRun("m", 0.3, true);
    reportTo(metrics).moduleRun("m", 0.3, false);
    expect(await lines(metrics, `${P}module_run_errors_total`)).toEqual([
      `${P}module_run_errors_total{module="m"} 1`,
    ]);
    expect(await lines(metrics, `${P}module_run_errors`)).toEqual([`${P}module_run_errors{module="m"} 1`]);
    expect(await lines(metrics, `${P}module_run_seconds_count`)).toEqual([
      `${P}module_run_seconds_count{module="m",activation="Other"} 2`,
    ]);
  });

  test.each([
    ["success", { errors: 0, allowed: 0, success: 1 }],
    ["failed", { errors: 1, allowed: 0, success: 0 }],
    ["allowed", { errors: 0, allowed: 1, success: 0 }],
  ] as const)("a hook run with outcome %s touches all three counters", async (outcome, want) => {
    for (const [module, family] of [
      ["m", "module_hook"],
      [undefined, "global_hook"],
    ] as const) {
      const metrics = new Metrics(P);
      const usage = { userSeconds: 0.1, systemSeconds: 0.2, maxRssBytes: 1000 };
      recordHookRun(metrics, { ...HOOK, module, outcome, seconds: 0.4, usage });
      const value = async (name: string): Promise<number> =>
        Number((await lines(metrics, `${P}${name}`))[0]?.split(" ").at(-1));
      expect(await value(`${family}_errors_total`)).toBe(want.errors);
      expect(await value(`${family}_allowed_errors_total`)).toBe(want.allowed);
      expect(await value(`${family}_success_total`)).toBe(want.success);
      expect(await value("hook_errors")).toBe(want.errors);
      expect(await value("hook_allowed_errors")).toBe(want.allowed);
      expect(await value(`${family}_run_seconds_sum`)).toBe(0.4);
      expect(await value(`${family}_run_max_rss_bytes`)).toBe(1000);
    }
  });

  test("gauges of modules and queues show what stands now, no more", async () => {
    const metrics = new Metrics(P);
    const measure = (length: number, ...modules: readonly Partial<ModuleView>[]): void =>
      sampleGauges(metrics, {
        clock: { now: () => T0 } as never,
        queues: { views: () => queueOf("a", ...Array.from({ length: length - 1 }, () => "b")) } as never,
        state: { view: viewOf(modules.map((change) => moduleView(change.name ?? "", change))) } as never,
        bindings: { countObjects: () => [{ ...HOOK, kind: "Pod", module: undefined, objects: 7 }] } as never,
      });
    const module = { chartVersion: "1.2" } as never;
    const one = { name: "a", module, enabled: true, suspended: true };
    measure(3, one, { name: "b", module, enabled: false });
    expect(await lines(metrics, `${P}mm_module_info`)).toEqual([
      `${P}mm_module_info{module="a",enabled="true",critical="false"} 1`,
      `${P}mm_module_info{module="b",enabled="false",critical="false"} 1`,
    ]);
    expect(await lines(metrics, `${P}mm_module_enabled`)).toEqual([
      `${P}mm_module_enabled{module="a",version="1.2"} 1`,
    ]);
    expect(await lines(metrics, `${P}mm_module_maintenance`)).toHaveLength(1);
    expect(await lines(metrics, `${P}tasks_queue_length`)).toEqual([
      `${P}tasks_queue_length{queue="main"} 3`,
    ]);
    expect(await lines(metrics, `${P}tasks_queue_head_info`)).toEqual([
      `${P}tasks_queue_head_info{queue="main",module="a",task_type="run-module",hook=""} 1`,
    ]);
    expect(await lines(metrics, `${P}kube_snapshot_objects`)).toEqual([
      `${P}kube_snapshot_objects{module="",hook="hooks/a.sh",binding="pods",queue="main",kind="Pod"} 7`,
    ]);
    measure(1, { ...one, enabled: false, suspended: false });
    expect(await lines(metrics, `${P}mm_module_info`)).toEqual([
      `${P}mm_module_info{module="a",enabled="false",critical="false"} 1`,
    ]);
    expect(await lines(metrics, `${P}mm_module_enabled`)).toEqual([]);
    expect(await lines(metrics, `${P}mm_module_maintenance`)).toEqual([]);
  });

  test("a module that waits has a series with the reason, for as long as it does", async () => {
    const metrics = new Metrics(P);
    const waits = async (
      module: Partial<ModuleView>,
      file: object,
      ...others: ModuleView[]
    ): Promise<string[]> => {
      const before = moduleView("a", module);
      const a = { ...before, module: { ...before.module, ...file } };
      sampleGauges(metrics, {
        clock: { now: () => T0 } as never,
        queues: { views: () => [] } as never,
        state: { view: viewOf([a, ...others]) } as never,
        bindings: { countObjects: () => [] } as never,
      });
      return lines(metrics, `${P}module_waiting`);
    };
    const held = { blockedSince: T0 };
    const requires = { requires: { modules: { b: "*" } } };
    const fresh = moduleView("b", { phase: "new" });
    const series = (reason: string): string[] => [`${P}module_waiting{module="a",reason="${reason}"} 1`];
    expect(await waits(held, requires)).toEqual(series("DependencyMissing"));
    expect(await waits(held, requires, fresh)).toEqual(series("DependencyNotReady"));
    expect(await waits(held, { after: ["b"] }, fresh)).toEqual(series("Pending"));
    // What runs already has lost something, and waits for nothing yet.
    expect(await waits({}, requires)).toEqual([]);
    expect(await waits(held, requires, moduleView("b"))).toEqual([]);
  });

  test("a module has a series of its health while that is known", async () => {
    const metrics = new Metrics(P);
    const healths = ["True", "False", "Unknown", undefined].map((status, index) =>
      moduleView(`m${index}`, { health: (status && { status }) as never }),
    );
    sampleGauges(metrics, {
      clock: { now: () => T0 } as never,
      queues: { views: () => [] } as never,
      state: { view: viewOf(healths) } as never,
      bindings: { countObjects: () => [] } as never,
    });
    expect(await lines(metrics, `${P}module_healthy`)).toEqual([
      `${P}module_healthy{module="m0"} 1`,
      `${P}module_healthy{module="m1"} 0`,
    ]);
  });

  test("samplers run before each scrape", async () => {
    const metrics = new Metrics(P);
    let rights = 0;
    metrics.beforeScrape(() => metrics.set("missingRights", {}, rights));
    rights = 3;
    expect(await lines(metrics, `${P}missing_rights`)).toEqual([`${P}missing_rights 3`]);
  });

  test("what is gone is forgotten, in every series, the rest is not", async () => {
    const metrics = new Metrics(P);
    for (const module of ["gone", "kept"]) {
      reportTo(metrics).moduleRun(module, 1, true);
      metrics.add("absent", { module, resource: "ns/Pod/x" });
      recordHookRun(metrics, { ...HOOK, hook: `${module}.sh`, module, outcome: "failed", seconds: 1 });
    }
    metrics.dropSeries({ module: "gone" });
    expect(await metrics.renderText()).not.toContain('module="gone"');
    recordHookRun(metrics, { ...HOOK, hook: "kept.sh", module: undefined, outcome: "failed", seconds: 1 });
    dropHookSeries(metrics, { module: "kept", hook: "kept.sh" });
    const text = await metrics.renderText();
    expect(text).not.toMatch(/module="kept"[^}]*hook="kept.sh"/);
    expect(text).toContain('global_hook_errors_total{hook="kept.sh"');
    dropHookSeries(metrics, { module: undefined, hook: "kept.sh" });
    expect(await metrics.renderText()).not.toContain('hook="kept.sh"');
    expect(text).toContain(`${P}modules_absent_resources_total{module="kept",resource="ns/Pod/x"} 1`);
    expect(text).toContain(`${P}module_run_seconds_count{module="kept",activation="Other"} 1`);
  });

  test("the rest of the report writes the series that they are named for", async () => {
    const metrics = new Metrics(P);
    const report = reportTo(metrics);
    report.moduleDeleteFailed("m");
    report.discoveryFailed();
    report.moduleReleased("m", { action: "upgraded", wasRecovered: true, release: undefined } as never);
    report.convergeEnded(2.5);
    report.reconciled("m", 1);
    report.ran({ release: "m", operation: "upgrade", seconds: 1 });
    const task = { kind: "run-module", module: "m", cause: { kind: "config" } } as const;
    report.taskBegan(task, { queue: "main", waitedMs: 1500 } as never);
    const times = report.bindingTimes(
      { name: "h" } as never,
      { name: "b", queue: "main", kind: "Pod" } as never,
    );
    times.recordFilter(0.001);
    times.recordEvent(0.001);
    const text = await metrics.renderText();
    for (const line of [
      'module_delete_errors_total{module="m"} 1',
      'module_helm_seconds_count{module="m",activation="Other"} 1',
      'helm_operation_seconds_count{module="m",activation="Other",operation="upgrade"} 1',
      'helm_fallback_total{module="m",operation="upgrade",error_type="pending"} 1',
      "modules_discover_errors_total 1",
      'convergence_seconds{activation="Other"} 2.5',
      'convergence_total{activation="Other"} 1',
      'task_wait_in_queue_seconds_total{module="m",hook="",binding="",queue="main"} 1.5',
      'kube_jq_filter_duration_seconds_count{module="",hook="h",binding="b",queue="main",kind="Pod"} 1',
      'kube_event_duration_seconds_count{module="",hook="h",binding="b",queue="main",kind="Pod"} 1',
    ]) {
      expect(text).toContain(`\n${P}${line}\n`);
    }
  });
});
