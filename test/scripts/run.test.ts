// The commands of package.json start by whatever Node the machine has, before there are dependencies.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";

const root = new URL("../..", import.meta.url).pathname;
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  scripts: Record<string, string>;
};

/** All modules that a script loads before its first line runs. */
function loadedBy(file: string, seen = new Set<string>()): Set<string> {
  const imports = readFileSync(file, "utf8").matchAll(/^(?:import|export) .*?from "([^"]+)";/gm);
  for (const [, from = ""] of imports) {
    const path = from.startsWith(".") ? join(dirname(file), from) : from;
    if (seen.has(path)) continue;
    seen.add(path);
    if (from.startsWith(".")) loadedBy(path, seen);
  }
  return seen;
}

describe("a command of a fresh checkout", () => {
  test.each(["setup", "run", "demo"])("the script %s loads nothing but Node's own modules", (name) => {
    const packages = [...loadedBy(join(root, "scripts", `${name}.mjs`))].filter(
      (path) => !path.startsWith("/"),
    );
    expect(packages.filter((name) => !name.startsWith("node:"))).toEqual([]);
  });

  // A shell looks a program up once: after the set-up it would start the old Node again.
  test("starts node once in a shell", () => {
    const twice = Object.values(scripts).filter((line) => (line.match(/(^|&& )node /g) ?? []).length > 1);
    expect(twice).toEqual([]);
  });

  test("ends as its script ends", () => {
    // It needs no development packages: the set-up never replaces those that run this test.
    const { status, stderr } = spawnSync("node", [join(root, "scripts/run.mjs"), "e2e.mjs", "--no-such"], {
      encoding: "utf8",
    });
    expect(stderr).toContain("--no-such");
    expect(status).toBe(1);
  });
});
