import { expect, it, onTestFinished } from "vitest";

import { readEnvironment } from "../../../src/config/settings/environment.ts";

it("does not hand on what the image has set for the operator alone", () => {
  const set = { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "131072", A: "b" };
  Object.assign(process.env, set, {
    ADDON_OPERATOR_OWN_VARIABLES: "MALLOC_ARENA_MAX,MALLOC_TRIM_THRESHOLD_",
  });
  onTestFinished(() => {
    for (const name of [...Object.keys(set), "ADDON_OPERATOR_OWN_VARIABLES"]) delete process.env[name];
  });
  expect(readEnvironment()).toMatchObject({ A: "b" });
  for (const name of ["MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "ADDON_OPERATOR_OWN_VARIABLES"])
    expect(readEnvironment()).not.toHaveProperty(name);
});
