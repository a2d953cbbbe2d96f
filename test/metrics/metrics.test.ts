import { describe, expect, test } from "vitest";

import { Metrics, SERIES } from "../../src/metrics/index.ts";

async function lines(metrics: Metrics, name: string): Promise<string[]> {
  const text = await metrics.text();
  return text.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
}

const P = "addon_operator_";
const HOOK = { hook: "hooks/a.sh", binding: "pods", queue: "main", activation: "Kubernetes" };

describe("the operator's series", () => {
  test("are all declared from the start, under the prefix of the setting", async () => {
    const text = await new Metrics("mine_").text();
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
    metrics.modules.known("m");
    expect(await lines(metrics, `${P}module_run_errors`)).toEqual([`${P}module_run_errors{module="m"} 0`]);
    const { hook, ...binding } = HOOK;
    metrics.hooks.known({ module: undefined, hook, bindings: [binding] });
    expect(await lines(metrics, `${P}hook_errors`)).toEqual([
      `${P}hook_errors{module="",hook="hooks/a.sh",binding="pods",queue="main"} 0`,
    ]);
    expect(await lines(metrics, `${P}global_hook_errors_total`)).toHaveLength(1);
    expect(await lines(metrics, `${P}module_hook_errors_total`)).toEqual([]);
  });

  test("the process itself is measured: CPU, memory, open files, event loop, garbage collection", async () => {
    const text = await new Metrics(P).text();
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
    metrics.modules.ran({ module: "m", activation: "OperatorStartup", seconds: 1, failed: true });
    metrics.modules.known("m");
    expect(await lines(metrics, `${P}module_run_errors_total`)).toEqual([
      `${P}module_run_errors_total{module="m"} 1`,
    ]);
  });

  test("a failed module run counts under both names", async () => {
    const metrics = new Metrics(P);
    metrics.modules.ran({ module: "m", activation: "X", seconds: 0.3, failed: true });
    metrics.modules.ran({ module: "m", activation: "X", seconds: 0.3, failed: false });
    expect(await lines(metrics, `${P}module_run_errors_total`)).toEqual([
      `${P}module_run_errors_total{module="m"} 1`,
    ]);
    expect(await lines(metrics, `${P}module_run_errors`)).toEqual([`${P}module_run_errors{module="m"} 1`]);
    expect(await lines(metrics, `${P}module_run_seconds_count`)).toEqual([
      `${P}module_run_seconds_count{module="m",activation="X"} 2`,
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
      metrics.hooks.ran({ ...HOOK, module, outcome, seconds: 0.4, usage });
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
    const one = { module: "a", enabled: true, version: "1.2", suspended: true };
    metrics.modules.stand([one, { module: "b", enabled: false, version: undefined, suspended: false }]);
    expect(await lines(metrics, `${P}mm_module_info`)).toEqual([
      `${P}mm_module_info{module="a",enabled="true",critical="false"} 1`,
      `${P}mm_module_info{module="b",enabled="false",critical="false"} 1`,
    ]);
    expect(await lines(metrics, `${P}mm_module_maintenance`)).toHaveLength(1);
    metrics.modules.stand([{ ...one, enabled: false, suspended: false }]);
    expect(await lines(metrics, `${P}mm_module_info`)).toEqual([
      `${P}mm_module_info{module="a",enabled="false",critical="false"} 1`,
    ]);
    expect(await lines(metrics, `${P}mm_module_enabled`)).toEqual([]);
    expect(await lines(metrics, `${P}mm_module_maintenance`)).toEqual([]);
  });

  test("samplers run before each scrape", async () => {
    const metrics = new Metrics(P);
    let length = 0;
    metrics.beforeScrape(() =>
      metrics.queues.stand([{ queue: "main", length, head: { type: "ModuleRun" } }]),
    );
    length = 3;
    expect(await lines(metrics, `${P}tasks_queue_length`)).toEqual([
      `${P}tasks_queue_length{queue="main"} 3`,
    ]);
    expect(await lines(metrics, `${P}tasks_queue_head_info`)).toEqual([
      `${P}tasks_queue_head_info{queue="main",module="",task_type="ModuleRun",hook=""} 1`,
    ]);
  });

  test("what is gone is forgotten, in every series, the rest is not", async () => {
    const metrics = new Metrics(P);
    for (const module of ["gone", "kept"]) {
      metrics.modules.ran({ module, activation: "X", seconds: 1, failed: true });
      metrics.modules.absent(module, "ns/Pod/x");
      metrics.hooks.ran({ ...HOOK, hook: `${module}.sh`, module, outcome: "failed", seconds: 1 });
    }
    await metrics.modules.forget("gone");
    expect(await metrics.text()).not.toContain('module="gone"');
    metrics.hooks.ran({ ...HOOK, hook: "kept.sh", module: undefined, outcome: "failed", seconds: 1 });
    await metrics.hooks.forget({ module: "kept", hook: "kept.sh" });
    const text = await metrics.text();
    expect(text).not.toMatch(/module="kept"[^}]*hook="kept.sh"/);
    expect(text).toContain('global_hook_errors_total{hook="kept.sh"');
    await metrics.hooks.forget({ module: undefined, hook: "kept.sh" });
    expect(await metrics.text()).not.toContain('hook="kept.sh"');
    expect(text).toContain(`${P}modules_absent_resources_total{module="kept",resource="ns/Pod/x"} 1`);
    expect(text).toContain(`${P}module_run_seconds_count{module="kept",activation="X"} 1`);
  });

  test("the rest of the recorders write the series they are named for", async () => {
    const metrics = new Metrics(P);
    metrics.tick();
    metrics.modules.deleteFailed("m");
    metrics.modules.redeployed("m");
    metrics.modules.helmStep({ module: "m", activation: "X", seconds: 1 });
    metrics.modules.helmCommand({ module: "m", activation: "X", operation: "upgrade", seconds: 1 });
    metrics.modules.helmFallback({ module: "m", operation: "upgrade", error_type: "pending" });
    metrics.modules.discoverFailed();
    metrics.modules.configInvalid();
    metrics.modules.reloaded({ activation: "X", seconds: 2.5 });
    const at = { queue: "main", activation: "" };
    const bindings = ["a", "b", "c"].map((binding) => ({ ...at, binding }));
    metrics.hooks.stand([{ module: "m", hook: "h", bindings }]);
    metrics.queues.waited({ queue: "main", seconds: 1.5 });
    metrics.queues.acted({ queue: "main", action: "AddLast", seconds: 0.001 });
    const kube = { module: undefined, hook: "h", binding: "b", queue: "main", kind: "Pod" };
    metrics.kube.snapshots([{ ...kube, objects: 7 }]);
    metrics.kube.filtered(kube, 0.001);
    metrics.kube.event(kube, 0.001);
    metrics.kube.requested({
      code: "200",
      method: "GET",
      host: "h",
      url: "/api/v1/pods",
      component: "main",
      seconds: 1,
    });
    metrics.kube.watchFailed("expired");
    metrics.kube.bindingMissing("b");
    metrics.kube.watchRestarted("v1/pods", "ns");
    const text = await metrics.text();
    for (const line of [
      "live_ticks 1",
      'module_delete_errors_total{module="m"} 1',
      'modules_helm_release_redeployed_total{module="m"} 1',
      'module_helm_seconds_count{module="m",activation="X"} 1',
      'helm_operation_seconds_count{module="m",activation="X",operation="upgrade"} 1',
      'helm_fallback_total{module="m",operation="upgrade",error_type="pending"} 1',
      "modules_discover_errors_total 1",
      "config_values_errors_total 1",
      'convergence_seconds{activation="X"} 2.5',
      'convergence_total{activation="X"} 1',
      'binding_count{module="m",hook="h"} 3',
      'task_wait_in_queue_seconds_total{module="",hook="",binding="",queue="main"} 1.5',
      'tasks_queue_action_duration_seconds_count{queue_name="main",queue_action="AddLast"} 1',
      'kube_snapshot_objects{module="",hook="h",binding="b",queue="main"} 7',
      'kube_jq_filter_duration_seconds_count{module="",hook="h",binding="b",queue="main",kind="Pod"} 1',
      'kube_event_duration_seconds_count{module="",hook="h",binding="b",queue="main",kind="Pod"} 1',
      'kubernetes_client_request_result_total{code="200",method="GET",host="h",component="main"} 1',
      'kubernetes_client_request_latency_seconds_count{verb="GET",url="/api/v1/pods",component="main"} 1',
      'kubernetes_client_watch_errors_total{error_type="expired"} 1',
      'binding_monitor_missing_total{binding="b"} 1',
      'factory_informer_dead_total{gvr="v1/pods",namespace="ns"} 1',
    ]) {
      expect(text).toContain(`\n${P}${line}\n`);
    }
  });
});
