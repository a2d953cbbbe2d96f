import { beforeEach, expect, test } from "vitest";

import { HookMetricError, HookMetricScopes } from "../../../src/report/metrics/index.ts";
import type { Account, Hook } from "../../../src/base/model/index.ts";

const ACCOUNT: Account = { namespace: "teams", name: "deployer" };

let deleted: string[];
let metrics: HookMetricScopes;
beforeEach(() => {
  deleted = [];
  metrics = new HookMetricScopes({
    metricsPrefix: "p_",
    state: { hooksOf: (module = "") => (deleted.includes(module) ? [] : [{ name: "a.sh" } as Hook]) },
    accounts: { getKnownAccount: (module) => (module.startsWith("team") ? ACCOUNT : undefined) },
  });
});

const write = (module: string | undefined, action: "add" | "set", { group }: { group?: string } = {}) =>
  metrics.apply([{ action, name: "age", value: 1, labels: {}, group }], { hook: "a.sh", module });

test("another type in a module with an account makes no hook of others fail", () => {
  write("team-a", "add");
  write("team-b", "set");
  write(undefined, "set");
  write("web", "set");
  expect(metrics.renderText()).toBe(
    [
      "# HELP age age",
      "# TYPE age untyped",
      'age{hook="a.sh",module="team-a"} 1',
      'age{hook="a.sh",module="team-b"} 1',
      'age{hook="a.sh",module=""} 1',
      'age{hook="a.sh",module="web"} 1',
      "",
    ].join("\n"),
  );
  // Modules without an account share names, as before.
  expect(() => write("web", "add")).toThrow(HookMetricError);
  deleted.push("team-a");
  expect(metrics.renderText()).toContain("# TYPE age gauge");
});

test("a group of a module with an account is its own", () => {
  write("team-a", "set", { group: "g" });
  write("web", "set", { group: "g" });
  metrics.apply([{ action: "expire", name: undefined, group: "g" }], { hook: "b.sh", module: "team-b" });
  expect(metrics.renderText()).toContain('module="team-a"');
  expect(metrics.renderText()).toContain('module="web"');
  metrics.apply([{ action: "expire", name: undefined, group: "g" }], { hook: "b.sh", module: "team-a" });
  expect(metrics.renderText()).not.toContain('module="team-a"');
  expect(metrics.renderText()).toContain('module="web"');
});

test("the limit of series is one for each module with an account, and one for all others together", () => {
  const report = (module: string, count: number) => {
    const indexes = Array.from({ length: count }, (_, index) => ({ x: `${module}${index}` }));
    const operations = indexes.map((labels) => ({ action: "set", name: "n", value: 1, labels }) as const);
    metrics.apply(
      operations.map((operation) => ({ ...operation, group: undefined })),
      { hook: "a.sh", module },
    );
  };
  report("team-a", 50_000);
  expect(() => report("team-b", 50_001)).toThrow("more than 50000 series");
  report("team-b", 1);
  report("web", 100_000);
  expect(() => report("db", 1)).toThrow("more than 100000 series");
});
