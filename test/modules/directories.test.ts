import { expect, test } from "vitest";

import { resolveDirectories } from "../../src/modules/directories.ts";

/** Both dirs, where only these directories exist. */
function dirs(settings: Parameters<typeof resolveDirectories>[0], ...there: readonly string[]): string[] {
  const { modulesDirs, globalHooksDir } = resolveDirectories(settings, (path) => there.includes(path));
  return [...modulesDirs, globalHooksDir];
}

test("modules and global hooks lie where the settings say", () => {
  expect(dirs({ modulesDir: "/a:/b", globalHooksDir: "/g", workingDir: "/w" })).toEqual(["/a", "/b", "/g"]);
});

test("else below the working directory, else at the root, else below /addons", () => {
  expect(dirs({ workingDir: "/w" }, "/modules")).toEqual(["/w/modules", "/w/global-hooks"]);
  for (const there of ["/modules", "/global-hooks"])
    expect(dirs({}, there)).toEqual(["/modules", "/global-hooks"]);
  expect(dirs({})).toEqual(["/addons/modules", "/addons/global-hooks"]);
});
