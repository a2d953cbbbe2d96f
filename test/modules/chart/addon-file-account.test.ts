import { expect, test } from "vitest";

import { readTree } from "../../../src/modules/index.ts";
import { directories } from "../directories.ts";

// docs/guides/tenancy.md: a broken addon.yaml does not make the operator act for the module as itself.

test.each([
  ["an unknown key", "serviceAccountName: deployer\nunknown: 1\n", ["deployer"]],
  ["a wrong range", "serviceAccountName: deployer\nrequires: {kubernetes: x}\n", ["deployer"]],
  ["an invalid account", "serviceAccountName: [deployer]\n", []],
  ["no YAML", "serviceAccountName: deployer\n  : [\n", []],
  ["nothing wrong", "serviceAccountName: deployer\n", ["deployer"]],
  ["no account", "retries: 1\n", ["none"]],
])("an addon.yaml with %s names its account, or leaves it as it was", async (...[, text, expected]) => {
  const on = await directories();
  await on.put("m/1-team/addon.yaml", text);
  const named: string[] = [];
  await readTree({
    modulesDirs: [on.at("m")],
    globalHooksDir: undefined,
    unnumberedOrder: 1,
    strict: false,
    archives: on.archives,
    refusalOf: ({ serviceAccountName = "none" }) => void named.push(serviceAccountName),
  });
  expect(named).toEqual(expected);
});
