import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";

import { tools } from "../../../scripts/setup/tools.mjs";
import { OfflineCharts } from "../../../src/surface/offline/charts.ts";
import type { Module, Tree } from "../../../src/base/model/index.ts";
import type { Children, RunRequest } from "../../../src/base/process/index.ts";
import { putFiles } from "../../support/chart-repository.ts";
import { parseSettings } from "../../support/command-line.ts";

it("limits how long helm may render a chart, whatever the time limit of releases is", async () => {
  const requests: RunRequest[] = [];
  const children = {
    run: (request: RunRequest) => {
      requests.push(request);
      const nothing = { stdout: "", stdoutTruncated: false, stderr: "", durationMs: 0 };
      return Promise.resolve({ ...nothing, outcome: "timedOut", message: "timed out" });
    },
  } as unknown as Children;
  const settings = parseSettings(["--helm-bin", tools().helm, "--helm-timeout=20m"], {}).settings;
  const charts = new OfflineCharts({ settings, env: {}, children });
  const dir = mkdtempSync(join(tmpdir(), "charts-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  putFiles(dir, { "Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n" });
  const none = { file: "values.yaml", section: undefined, enabled: undefined };
  const module = { name: "web", valuesKey: "web", dir, chartDir: dir, chart: "root", schemas: {} };
  const modules = [{ ...module, common: none, own: none, crdFiles: [], hookFiles: new Map() }];
  const tree = {
    modules,
    globalSchemas: {},
    globalHookFiles: [],
    purgeBlockers: [],
    problems: [],
    warnings: [],
  };
  const rendered = charts.render(modules[0] as unknown as Module, tree as unknown as Tree);
  await expect(rendered).rejects.toThrow("timed out");
  expect(requests.map(({ timeoutMs }) => timeoutMs)).toEqual([120_000]);
});
