import { expect, test } from "vitest";

import { placesOf } from "../../src/modules/places.ts";

/** Both places, where only these directories exist. */
function places(settings: Parameters<typeof placesOf>[0], ...there: readonly string[]): string[] {
  const { modulesDirs, globalHooksDir } = placesOf(settings, (path) => there.includes(path));
  return [...modulesDirs, globalHooksDir];
}

test("modules and global hooks lie where the settings say", () => {
  expect(places({ modulesDir: "/a:/b", globalHooksDir: "/g", workingDir: "/w" })).toEqual(["/a", "/b", "/g"]);
});

test("else below the working directory, else at the root, else below /addons", () => {
  expect(places({ workingDir: "/w" }, "/modules")).toEqual(["/w/modules", "/w/global-hooks"]);
  for (const there of ["/modules", "/global-hooks"])
    expect(places({}, there)).toEqual(["/modules", "/global-hooks"]);
  expect(places({})).toEqual(["/addons/modules", "/addons/global-hooks"]);
});
