import { describe, expect, it } from "vitest";

import { PatchAuthors, compileSchemas, createOriginFinder } from "../../src/values/index.ts";
import type { SectionInput } from "../../src/values/index.ts";

const input: SectionInput = {
  schemas: compileSchemas({
    config: { file: "c", text: "{additionalProperties: true, properties: {a: {default: 1}}}" },
    values: { file: "v", text: "{additionalProperties: true, properties: {b: {default: {x: 1}}}}" },
  }),
  common: { c: 1, m: { x: 1 } },
  own: { d: [1, { e: 1 }], m: { y: 1 }, n: { z: 1 } },
  config: { f: 1, removed: null, "s/t": 1 },
  overlay: { g: 1, away: null },
  patches: [
    { op: "add", path: "/m/h", value: { i: 1 } },
    { op: "remove", path: "/m/c" },
    { op: "test", path: "/m/f", value: 1 },
    { op: "copy", from: "/m/f", path: "/m/n/k" },
  ],
};

describe("originOf", () => {
  it.each([
    ["/a", "config schema default", "/a"],
    ["/b/x", "values schema default", "/b/x"],
    ["/b", "values schema default", "/b"],
    ["/d", "module values.yaml", "/d"],
    ["/d/1/e", "module values.yaml", "/d"],
    ["/f", "ConfigMap", "/f"],
    ["/f/below", "ConfigMap", "/f"],
    ["/s~1t", "ConfigMap", "/s~1t"],
    ["/g", "overlay", "/g"],
    ["/h/i", "hook patch", "/h/i"],
    ["/n/k", "hook patch", "/n/k"],
    ["/n/z", "module values.yaml", "/n/z"],
    ["/removed", "ConfigMap", "/removed"],
    ["/away", "overlay", "/away"],
  ])("%s is of %s", (path, layer, at) => {
    expect(createOriginFinder(input)(path)).toEqual({ layer, path: at });
  });

  it.each(["/m", "/", "/nothing", "/removed/below"])("%s is of nobody", (path) => {
    expect(createOriginFinder(input)(path)).toBeUndefined();
  });

  it("reports the one layer that is", () => {
    const { schemas } = input;
    expect(createOriginFinder({ schemas, config: { a: 1 } })("/")).toEqual({ layer: "ConfigMap", path: "" });
    expect(createOriginFinder({ schemas, own: [1] })("/")).toEqual({ layer: "module values.yaml", path: "" });
  });
});

const add = (path: string) => ({ op: "add", path, value: 1 }) as const;

describe("PatchAuthors", () => {
  it("knows the hook that last patched a leaf, something above it, or an item of it", () => {
    const authors = new PatchAuthors();
    authors.record("app", [add("/app/a"), add("/app/map"), add("/app/list/-")], "first.sh");
    authors.record("app", [add("/app/map/x")], "second.sh");
    const of = (path: string) => authors.findAuthor("app", path);
    expect(["/a", "/map/x", "/map/y", "/list", "/ab", ""].map(of)).toEqual([
      "first.sh",
      "second.sh",
      "first.sh",
      "first.sh",
      undefined,
      "second.sh",
    ]);
    expect(authors.findAuthor("other", "/a")).toBeUndefined();
    authors.record("app", [add("/app/map")], "third.sh");
    expect(of("/map/x")).toBe("third.sh");
  });

  it("forgets the oldest of very many", () => {
    const authors = new PatchAuthors();
    for (let index = 0; index <= 1000; index++) authors.record("app", [add(`/app/k${index}`)], "a.sh");
    expect([authors.findAuthor("app", "/k0"), authors.findAuthor("app", "/k1")]).toEqual([undefined, "a.sh"]);
  });
});
