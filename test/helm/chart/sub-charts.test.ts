import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeEach, expect, it, onTestFinished } from "vitest";

import { listEnabledCrdFiles } from "../../../src/helm/index.ts";
import { toYaml } from "../../../src/base/index.ts";
import type { JsonObject } from "../../../src/base/model/index.ts";

// docs/reference/addon-yaml.md: CRDs of sub-charts that are switched off are left alone.

let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "sub-charts-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
});

function put(rel: string, content: JsonObject): string {
  const file = join(dir, rel);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, toYaml(content));
  return file;
}

function chart(at: string, dependencies: JsonObject[], values: JsonObject = {}): void {
  put(join(at, "Chart.yaml"), { name: at.split("/").at(-1) ?? "", version: "1.0.0", dependencies });
  put(join(at, "values.yaml"), values);
  put(join(at, "crds/a.yaml"), {});
}

function inForce(values: JsonObject, crds: readonly string[] = ["crds", "charts/sub/crds"]): string[] {
  const crdFiles = crds.map((rel) => join(dir, rel, "a.yaml"));
  const found = listEnabledCrdFiles({ chartDir: dir, crdFiles }, () => JSON.stringify(values));
  return found.map((file) => file.slice(dir.length + 1, -"/a.yaml".length));
}

const ON = ["crds", "charts/sub/crds"];
const OFF = ["crds"];

it.each<[string, JsonObject, JsonObject, string[]]>([
  ["without a condition", {}, {}, ON],
  ["by values", { condition: "sub.enabled" }, { sub: { enabled: false } }, OFF],
  ["by the chart's own values", { condition: "x.off" }, {}, OFF],
  ["by values over the chart's own", { condition: "x.off" }, { x: { off: true } }, ON],
  ["by the sub-chart's own values", { condition: "sub.byItself" }, {}, OFF],
  ["by the first condition that has an answer", { condition: "no.such, x.off,sub.enabled" }, {}, OFF],
  ["not by what is no boolean", { condition: "x.text" }, {}, ON],
  ["by a tag", { tags: ["back"] }, { tags: { back: false } }, OFF],
  ["not while another tag is on", { tags: ["back", "front"] }, { tags: { back: false, front: true } }, ON],
  ["by a condition over tags", { tags: ["back"], condition: "x.on" }, { tags: { back: false } }, ON],
  [
    "by the section of its alias",
    { alias: "other", condition: "other.enabled" },
    { other: { enabled: false } },
    OFF,
  ],
])("a sub-chart is on or off %s", (...[, use, values, expected]) => {
  chart(".", [{ name: "sub", version: "1.0.0", ...use }], { x: { off: false, on: true, text: "no" } });
  chart("charts/sub", [], { byItself: false });
  expect(inForce(values)).toEqual(expected);
});

it("a chart used twice is on as long as one use is", () => {
  chart(
    ".",
    ["a", "b"].map((alias) => ({ name: "sub", version: "1", alias, condition: `${alias}.on` })),
  );
  chart("charts/sub", []);
  expect(inForce({ a: { on: false } })).toEqual(ON);
  expect(inForce({ a: { on: false }, b: { on: false } })).toEqual(OFF);
});

it("goes down to sub-charts of sub-charts, with their sections and what is global", () => {
  chart(".", [{ name: "sub", version: "1" }], { sub: { deep: { enabled: true } }, global: { crds: true } });
  chart("charts/sub", [{ name: "deep", version: "1", condition: "deep.enabled,global.crds" }]);
  chart("charts/sub/charts/deep", [], {});
  const crds = [...ON, "charts/sub/charts/deep/crds"];
  expect(inForce({}, crds)).toEqual(crds);
  expect(inForce({ sub: { deep: { enabled: false } } }, crds)).toEqual(ON);
  expect(inForce({ sub: { deep: { enabled: null } }, global: { crds: false } }, crds)).toEqual(ON);
});

it("what is vendored and not listed is on, and broken files decide nothing", () => {
  chart(".", []);
  chart("charts/sub", []);
  expect(inForce({})).toEqual(ON);
  writeFileSync(join(dir, "Chart.yaml"), "{");
  expect(inForce({})).toEqual(ON);
});
