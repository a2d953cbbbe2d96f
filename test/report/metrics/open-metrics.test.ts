import { describe, expect, test } from "vitest";

import { Metrics, SERIES } from "../../../src/report/metrics/index.ts";
import { makeOtlpExport, getTaskOrigin, Tracer } from "../../../src/base/trace/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import { ManualClock } from "../../support/clock.ts";

const P = "addon_operator_";
const HELM = { module: "web", activation: "Other" };
const ENDINGS: Readonly<Record<string, readonly string[]>> = {
  counter: ["_total"],
  histogram: ["_bucket", "_sum", "_count"],
  gauge: [""],
  unknown: [""],
};

/** A span of a task in which something is measured; with a ratio there is a collector that gets that share. */
async function within(metrics: Metrics, seconds: readonly number[], ratio?: number): Promise<string> {
  const clock = new ManualClock();
  const target = {
    endpoint: "http://127.0.0.1:9",
    headers: undefined,
    version: "",
    namespace: "",
    instance: "",
  };
  const around = { clock, logger: silentLogger, redactDeep: <T>(value: T): T => value };
  const spanExport = ratio === undefined ? undefined : makeOtlpExport(target, { ...around, ratio });
  const from = getTaskOrigin();
  const start = { name: "run-module web", attributes: {}, module: "web", from, waitingSince: 0 };
  await new Tracer({ clock, spanExport }).task(start, async () => {
    for (const each of seconds) metrics.observe("moduleHelm", HELM, each);
  });
  return from.traceId;
}

const bucketsIn = (text: string): string[] =>
  text.split("\n").filter((line) => line.startsWith(`${P}module_helm_seconds_bucket`) && line.includes("#"));

describe("OpenMetrics", () => {
  test("has one family after the other, each with a name of its own, and an end", async () => {
    const metrics = new Metrics(P);
    for (const name of Object.keys(SERIES) as (keyof typeof SERIES)[]) {
      const labels = Object.fromEntries(SERIES[name].labels.map((label) => [label, 'a "b" \\']));
      metrics.ensureSeries(name, labels);
      metrics.observe(name, labels, 3);
    }
    const lines = (await metrics.renderText("open")).split("\n");
    expect(lines.splice(-2)).toEqual(["# EOF", ""]);
    const taken: string[] = [];
    const wrong: string[] = [];
    let own: string[] = [];
    for (const line of lines) {
      const [, word, name = "", type = ""] = /^# (HELP|TYPE) (\w+) (.*)$/.exec(line) ?? [];
      if (word === undefined && (!own.includes(/^\w+/.exec(line)?.[0] ?? "") || /le="\d+"/.test(line)))
        wrong.push(line);
      if (word !== "TYPE") continue;
      own = (ENDINGS[type] ?? []).map((ending) => `${name}${ending}`);
      taken.push(...new Set([name, ...own, ...(type === "counter" ? [`${name}_created`] : [])]));
    }
    expect(wrong).toEqual([]);
    expect(taken.filter((name, at) => taken.indexOf(name) < at)).toEqual([]);
    expect(taken).toEqual(
      expect.arrayContaining([`${P}module_run_errors_total`, "process_cpu_seconds_total"]),
    );
  });

  test("has the same series as the plain text, which stays as it was", async () => {
    const metrics = new Metrics(P);
    await within(metrics, [0.3]);
    const own = (text: string): string =>
      text
        .split("\n")
        .filter((line) => line.includes(P))
        .join("\n");
    const plain = own(await metrics.renderText());
    const open = own(await metrics.renderText("open"));
    const samples = (text: string): string[] => text.split("\n").filter((line) => !line.startsWith("#"));
    expect(samples(open.replaceAll(/le="(\d+)\.0"/g, 'le="$1"'))).toEqual(samples(plain));
    expect(own(await metrics.renderText())).toBe(plain);
    expect(await metrics.renderText()).toMatch(/^# TYPE process_cpu_seconds_total counter$/m);
  });

  test("names the last trace of each bucket, once somebody reads it", async () => {
    const metrics = new Metrics(P, { now: () => 1_700_000_000_123 });
    await within(metrics, [0.3]);
    expect(bucketsIn(await metrics.renderText("open"))).toEqual([]);
    metrics.observe("moduleHelm", HELM, 0.3);
    await within(metrics, [0.3]);
    const trace = await within(metrics, [0.4, 0, 99]);
    const labels = 'module="web",activation="Other"';
    const exemplar = (value: number): string => `# {trace_id="${trace}"} ${value} 1700000000.123`;
    expect(bucketsIn(await metrics.renderText("open"))).toEqual([
      `${P}module_helm_seconds_bucket{le="0.0",${labels}} 1 ${exemplar(0)}`,
      `${P}module_helm_seconds_bucket{le="0.5",${labels}} 5 ${exemplar(0.4)}`,
      `${P}module_helm_seconds_bucket{le="+Inf",${labels}} 6 ${exemplar(99)}`,
    ]);
    expect(bucketsIn(await metrics.renderText())).toEqual([]);
  });

  test("names no trace that the collector does not get", async () => {
    const metrics = new Metrics(P);
    await metrics.renderText("open");
    await within(metrics, [0.3], 0);
    expect(bucketsIn(await metrics.renderText("open"))).toEqual([]);
    const trace = await within(metrics, [0.3], 1);
    expect(bucketsIn(await metrics.renderText("open"))).toEqual([expect.stringContaining(trace)]);
  });
});
