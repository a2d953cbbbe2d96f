import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { expect, test } from "vitest";

import { Family } from "../../../src/report/metrics/family.ts";

const LABELS = ["module", "activation"];
const BUCKETS = [0, 0.5, 1];
const common = { name: "p_x", help: "What it is" };
const STRANGE = 'a "quoted" \\ and\na new line';

/** What prom-client makes of the same. */
async function oracle(make: (registers: Registry[]) => void): Promise<string> {
  const registry = new Registry();
  make([registry]);
  return registry.metrics();
}

test("a histogram's text is prom-client's, and changes with each observation", async () => {
  const family = new Family(
    { ...common, name: "x", type: "histogram", labels: LABELS, buckets: BUCKETS },
    "p_",
  );
  const seen: (readonly [Record<string, string>, number])[] = [];
  for (const [module, value] of [
    ["a", 0.3],
    [STRANGE, 7],
    ["a", 1],
    ["a", 0],
  ] as const) {
    const labels = { module, activation: "Other" };
    family.observe(labels, value);
    seen.push([labels, value]);
    const text = await oracle((registers) => {
      const histogram = new Histogram({ ...common, labelNames: LABELS, buckets: BUCKETS, registers });
      for (const [held, number] of seen) histogram.observe(held, number);
    });
    expect(family.renderParts().join("")).toBe(text);
  }
});

test("counters and gauges are prom-client's, too", async () => {
  const counter = new Family({ ...common, name: "x", type: "counter", labels: LABELS }, "p_");
  const gauge = new Family({ ...common, name: "x", type: "gauge", labels: [] }, "p_");
  const counts = await oracle((registers) => {
    const twin = new Counter({ ...common, labelNames: LABELS, registers });
    for (const amount of [1, 2.5]) {
      counter.add({ module: "a", activation: "x" }, amount);
      twin.inc({ module: "a", activation: "x" }, amount);
    }
  });
  const value = await oracle((registers) => {
    gauge.set({}, 4);
    new Gauge({ ...common, registers }).set(4);
  });
  expect([counter.renderParts().join(""), gauge.renderParts().join("")]).toEqual([counts, value]);
});

test("nothing becomes of what does not fit the type, and a counter never falls", () => {
  const counter = new Family({ ...common, name: "x", type: "counter", labels: [] }, "p_");
  counter.add({}, 2);
  counter.add({}, -1);
  counter.set({}, 9);
  counter.observe({}, 9);
  expect(counter.renderParts().join("")).toMatch(/^p_x 2$/m);
});
