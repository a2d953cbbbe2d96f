import { describe, expect, it } from "vitest";

import { listEdges, layout, findRelatedModules } from "../../page/graph-layout.ts";
import type { GraphNode } from "../../src/surface/ui/wire.ts";

/** `{ c: "a b" }`: c requires a and b. */
const edges = (requires: Readonly<Record<string, string>>): ReturnType<typeof listEdges> =>
  listEdges(
    Object.entries(requires).map(([name, of]): GraphNode => ({
      name,
      requires: of.split(" ").map((each) => ({ name: each, met: true })),
      after: [],
    })),
  );

const levels = (names: string, requires: Readonly<Record<string, string>>): Record<string, number> => {
  const places = layout(names.split(" "), edges(requires));
  return Object.fromEntries([...places].map(([name, { level }]) => [name, level]));
};

describe("the graph", () => {
  it("distinguishes met and unmet requirements and mere order", () => {
    const node = { name: "a", requires: [{ name: "b", met: true }], after: ["d"] };
    expect(listEdges([node, { ...node, requires: [{ name: "c", met: false }], after: [] }])).toEqual([
      { from: "a", to: "b", kind: "met" },
      { from: "a", to: "d", kind: "after" },
      { from: "a", to: "c", kind: "unmet" },
    ]);
  });

  it("places each module one level right of its last requirement", () => {
    expect(levels("d c b a e", { b: "a", c: "a b", d: "a c" })).toEqual({ a: 0, e: 0, b: 1, c: 2, d: 3 });
  });

  it("places each member of a cycle once", () => {
    expect(levels("x a b c d", { a: "c", b: "a", c: "b", x: "b", d: "d" })).toEqual({
      b: 0,
      x: 1,
      c: 1,
      a: 2,
      d: 3,
    });
  });

  it("gives each module of a level a separate line near its neighbours", () => {
    const dependents = ["1", "2", "3", "4", "5", "6"];
    const names = ["a", "b", ...dependents];
    const places = layout(names, edges({ 1: "b", 2: "b", 3: "b", 4: "a", 5: "a", 6: "a" }));
    const right = dependents.map((name) => places.get(name)?.line ?? 0);
    for (const line of right) expect(right.filter((each) => Math.abs(each - line) < 1)).toEqual([line]);
    const lineOf = (name: string): number => places.get(name)?.line ?? 0;
    expect([lineOf("a"), lineOf("b")]).toEqual([lineOf("5"), lineOf("2")]);
    expect(Math.min(...[...places.values()].map(({ line }) => line))).toBe(0);
  });

  it("finds related modules, nearest first, but not those related only to a related one", () => {
    const all = edges({ a: "root", b: "a", c: "b", other: "a", "c-too": "c", deep: "z", z: "deep" });
    expect(findRelatedModules(["b"], all)).toEqual(["b", "a", "c", "root", "c-too"]);
    expect(findRelatedModules(["deep"], all)).toEqual(["deep", "z"]);
    expect(findRelatedModules(["nothing"], all)).toEqual(["nothing"]);
  });

  it("lays out long chains and large cycles quickly", () => {
    const names = Array.from({ length: 150 }, (_, index) => `m${index}`);
    const chain = Object.fromEntries(names.slice(1).map((name, index) => [name, names[index] ?? ""]));
    expect(layout(names, edges(chain)).get("m149")?.level).toBe(149);
    const everyone = Object.fromEntries(names.map((name) => [name, names.join(" ")]));
    expect(layout(names, edges(everyone)).size).toBe(150);
  });
});
