import { expect, test } from "vitest";

import { drawGraph, graphToJson, buildGraph } from "../../../src/engine/plan/index.ts";
import type { ModuleView } from "../../../src/engine/state/index.ts";
import { moduleView, viewOf } from "../../report/views.ts";

function requiring(name: string, file: Partial<ModuleView["module"]>): ModuleView {
  const view = moduleView(name);
  return { ...view, module: { ...view.module, ...file } };
}

const secret = { apiVersion: "v1", kind: "Secret", namespace: "ns", name: "ca" };
const view = viewOf([
  requiring("a", { requires: { modules: { b: ">=1", c: "*" }, objects: [secret] }, after: ["b"] }),
  moduleView("b"),
  moduleView("c", { enabled: false }),
]);
const nodes = buildGraph(view, ({ enabled }) => (enabled ? "Ready" : "Disabled"));

test("a line for each module, with its state and what it lacks", () => {
  expect(drawGraph(nodes, "text")).toBe(
    "a: Ready; requires b, c (is disabled), ns/Secret/ca (has not been checked yet); after b\nb: Ready\nc: Disabled\n",
  );
});

test("as Graphviz reads it", () => {
  expect(drawGraph(nodes, "dot").split("\n")).toEqual([
    "digraph modules {",
    '  "a" [label="a\\nReady"];',
    '  "b" [label="b\\nReady"];',
    '  "c" [label="c\\nDisabled"];',
    '  "ns/Secret/ca" [label="ns/Secret/ca"];',
    '  "a" -> "b";',
    '  "a" -> "c" [color=red];',
    '  "a" -> "ns/Secret/ca" [color=red];',
    '  "a" -> "b" [style=dashed];',
    "}",
    "",
  ]);
});

test("as Markdown shows it", () => {
  expect(drawGraph(nodes, "mermaid").split("\n")).toEqual([
    "flowchart LR",
    '  n0["a: Ready"]',
    '  n1["b: Ready"]',
    '  n2["c: Disabled"]',
    '  n3["ns/Secret/ca"]',
    "  n0 --> n1",
    "  n0 -- unmet --> n2",
    "  n0 -- unmet --> n3",
    "  n0 -.-> n1",
    "",
  ]);
});

test("as data", () => {
  expect(graphToJson(nodes)).toMatchObject([
    {
      module: "a",
      state: "Ready",
      requires: [
        { name: "b", range: ">=1", met: true },
        { name: "c", range: "*", met: false, reason: "DependencyDisabled", message: "is disabled" },
        { name: "ns/Secret/ca", met: false, reason: "DependencyMissing" },
      ],
      after: ["b"],
    },
    { module: "b", requires: [] },
    { module: "c", state: "Disabled" },
  ]);
});
