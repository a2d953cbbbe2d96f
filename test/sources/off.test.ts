import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";

const src = join(import.meta.dirname, "../../src");

/** Files that are loaded together with a file: what it imports or re-exports, types left out. */
function loadedWith(file: string, known = new Set<string>()): Set<string> {
  if (known.has(file) || !existsSync(file)) return known;
  known.add(file);
  const text = readFileSync(file, "utf8");
  for (const [, words = "", path = ""] of text.matchAll(/^(?:import|export)\s([^;]*?)from "(\.[^"]+)";/gm))
    if (!words.trimStart().startsWith("type ")) loadedWith(join(dirname(file), path), known);
  return known;
}

// docs/guides/module-sources.md: fetching is off by default, and then costs nothing.
it("an operator without --sources loads nothing of what fetches modules", () => {
  const loaded = [...loadedWith(join(src, "main/run-operator.ts"))].map((file) => file.slice(src.length + 1));
  expect(loaded.length).toBeGreaterThan(200);
  expect(loaded).toContain("main/wiring/operator.ts");
  expect(loaded.filter((file) => /^(?:sources)\//.test(file))).toEqual([]);
});
