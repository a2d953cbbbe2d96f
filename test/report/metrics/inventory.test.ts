import { expect, test } from "vitest";

import { Metrics } from "../../../src/report/metrics/index.ts";
import type { Hook } from "../../../src/base/model/index.ts";
import type { State } from "../../../src/engine/state/index.ts";
import { hasHook, Inventory } from "../../../src/report/metrics/inventory.ts";
import { hookWith } from "../../hooks/build.ts";

const TEXT = `
configVersion: v1
onStartup: 1
schedule: [{name: daily, crontab: "@daily", queue: slow}]
kubernetes: [{name: pods, kind: Pod}]
`;

test("series of hooks and modules are there from the start, and go with them", async () => {
  const own = hookWith(TEXT, "a.sh");
  let globalHooks: readonly Hook[] = [hookWith(TEXT, "a.sh", "global")];
  const records = [{ module: { name: "m" }, hooks: [own] }];
  const state = {
    get globalHooks() {
      return globalHooks;
    },
    records: () => records.values(),
    hooksOf: (name: string | undefined) =>
      name === undefined ? globalHooks : (records.find(({ module }) => module.name === name)?.hooks ?? []),
  } as unknown as State;
  const metrics = new Metrics("");
  const inventory = new Inventory(metrics, state);
  metrics.beforeScrape(() => inventory.refresh());
  const lines = async (name: string): Promise<string[]> =>
    (await metrics.renderText()).split("\n").filter((line) => line.startsWith(`${name}{`));

  expect(await lines("binding_count")).toEqual([
    'binding_count{module="",hook="a.sh"} 3',
    'binding_count{module="m",hook="a.sh"} 3',
  ]);
  expect(await lines("hook_errors")).toContain(
    'hook_errors{module="m",hook="a.sh",binding="daily",queue="slow"} 0',
  );
  const place = 'module="m",hook="a.sh"';
  expect(await lines("module_hook_success_total")).toEqual([
    `module_hook_success_total{${place},binding="onStartup",queue="main",activation="onStartup"} 0`,
    `module_hook_success_total{${place},binding="daily",queue="slow",activation="Schedule"} 0`,
    `module_hook_success_total{${place},binding="pods",queue="main",activation="Kubernetes"} 0`,
  ]);
  expect(await lines("module_run_errors_total")).toEqual(['module_run_errors_total{module="m"} 0']);

  globalHooks = [];
  expect(hasHook(state, { hook: "a.sh" })).toBe(false);
  expect(hasHook(state, { hook: "a.sh", module: "m" })).toBe(true);
  expect(await lines("hook_errors")).toHaveLength(3);
  expect(await lines("global_hook_errors_total")).toEqual([]);

  records.pop();
  const text = await metrics.renderText();
  expect(text).not.toContain('module="m"');
  expect(text).not.toContain('hook="a.sh"');
});
