// package-lock.json is complete: `npm ci` refuses one that lacks a package, also one of another platform.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

interface Entry {
  readonly dependencies?: Record<string, string>;
  readonly optionalDependencies?: Record<string, string>;
}
const { packages } = JSON.parse(
  readFileSync(new URL("../../package-lock.json", import.meta.url), "utf8"),
) as { packages: Record<string, Entry> };

/** Whether Node finds the package `name` from the directory `at`: there or in a directory above. */
function isLocked(name: string, at: string): boolean {
  if (`${at === "" ? "" : `${at}/`}node_modules/${name}` in packages) return true;
  return at !== "" && isLocked(name, at.slice(0, Math.max(0, at.lastIndexOf("/node_modules/"))));
}

test("each package has an entry for all that it depends on", () => {
  const missing = Object.entries(packages).flatMap(([at, { dependencies, optionalDependencies }]) =>
    Object.keys({ ...dependencies, ...optionalDependencies })
      .filter((name) => !isLocked(name, at))
      .map((name) => `${name}, which ${at} needs`),
  );
  expect(missing).toEqual([]);
});
