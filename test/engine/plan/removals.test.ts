import { expect, it } from "vitest";

import { mustKeepObjects } from "../../../src/engine/plan/index.ts";
import type { ParsedConfig } from "../../../src/values/index.ts";

const config = { guards: new Set(["webServerProtected", "dbMaintenance"]) } as unknown as ParsedConfig;
const blocked = (confirmed: boolean) => ({
  deletionLimit: {
    modules: ["cache"],
    covers: [],
    moves: [],
    isExceeded: true,
    removed: 0,
    installed: 1,
    token: "",
    confirmed,
  },
});

it.each([
  ["web-server", true],
  ["db", true],
  ["cache", true],
  ["other", false],
])("%s keeps its objects where it is protected, suspended or its removal is blocked: %s", (name, keeps) => {
  expect(mustKeepObjects(blocked(false), config, name)).toBe(keeps);
});

it("a release whose removal is confirmed gives its objects", () => {
  expect(mustKeepObjects(blocked(true), config, "cache")).toBe(false);
});
