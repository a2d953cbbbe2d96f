import { expect, it } from "vitest";
import { toChartValues } from "../../src/values/index.ts";

// docs/reference/addon-yaml.md: which values a chart gets.

const root = { chart: "root", valuesKey: "webApp" } as const;

it("a chart of the module's own finds the section under the module's key", () => {
  const values = toChartValues({ chart: "own", valuesKey: "webApp" }, {}, { a: 1 });
  expect(values).toEqual({ global: {}, webApp: { a: 1 } });
});

it("a public chart has the section as root values, beside what is global", () => {
  expect(toChartValues(root, { zone: "eu" }, { a: 1 })).toEqual({ global: { zone: "eu" }, a: 1 });
});

it("the section's own global goes over the shared one", () => {
  const section = { global: { image: { tag: "v2" } }, a: 1 };
  const shared = { zone: "eu", image: { tag: "v1", name: "web" } };
  expect(toChartValues(root, shared, section)).toEqual({
    global: { zone: "eu", image: { tag: "v2", name: "web" } },
    a: 1,
  });
});

it("an empty global is left out: a schema of the chart may not know it", () => {
  expect(toChartValues(root, {}, { a: 1 })).toEqual({ a: 1 });
});
