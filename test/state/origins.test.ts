import { describe, expect, it } from "vitest";

import { PatchAuthors } from "../../src/state/values/origins.ts";

const add = (path: string) => ({ op: "add", path, value: 1 }) as const;

describe("PatchAuthors", () => {
  it("knows the hook that last patched a leaf, something above it, or an item of it", () => {
    const authors = new PatchAuthors();
    authors.note("app", [add("/app/a"), add("/app/map"), add("/app/list/-")], "first.sh");
    authors.note("app", [add("/app/map/x")], "second.sh");
    const of = (path: string) => authors.of("app", path);
    expect(["/a", "/map/x", "/map/y", "/list", "/ab", ""].map(of)).toEqual([
      "first.sh",
      "second.sh",
      "first.sh",
      "first.sh",
      undefined,
      "second.sh",
    ]);
    expect(authors.of("other", "/a")).toBeUndefined();
    authors.note("app", [add("/app/map")], "third.sh");
    expect(of("/map/x")).toBe("third.sh");
  });

  it("forgets the oldest of very many", () => {
    const authors = new PatchAuthors();
    for (let index = 0; index <= 1000; index++) authors.note("app", [add(`/app/k${index}`)], "a.sh");
    expect([authors.of("app", "/k0"), authors.of("app", "/k1")]).toEqual([undefined, "a.sh"]);
  });
});
