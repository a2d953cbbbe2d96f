import { symlink } from "node:fs/promises";

import { expect, test } from "vitest";

import { readTree } from "../../../src/modules/index.ts";
import { directories } from "../module-directories.ts";

// docs/guides/tenancy.md: a broken addon.yaml does not make the operator act for the module as itself.

/** The accounts that a read of the directories names. */
async function accountsIn(on: Awaited<ReturnType<typeof directories>>): Promise<string[]> {
  const named: string[] = [];
  await readTree({
    modulesDirs: [on.at("m")],
    globalHooksDir: undefined,
    unnumberedOrder: 1,
    strict: false,
    archives: on.archives,
    findRefusal: ({ serviceAccountName = "none", accountIsUnknown = false }) =>
      void named.push(accountIsUnknown ? "unknown" : serviceAccountName),
  });
  return named;
}

test.each([
  ["an unknown key", "serviceAccountName: deployer\nunknown: 1\n", "deployer"],
  ["a wrong range", "serviceAccountName: deployer\nrequires: {kubernetes: x}\n", "deployer"],
  ["an unknown key and no account", "unknown: 1\n", "none"],
  ["an invalid account", "serviceAccountName: [deployer]\n", "unknown"],
  ["no YAML", "serviceAccountName: deployer\n  : [\n", "unknown"],
  ["no map", "deployer\n", "unknown"],
  ["more than 1 MiB", `serviceAccountName: deployer\n#${"x".repeat(1024 * 1024)}\n`, "unknown"],
  ["nothing wrong", "serviceAccountName: deployer\n", "deployer"],
  ["no account", "retries: 1\n", "none"],
])("an addon.yaml with %s names its account, or says that it is not known", async (...[, text, expected]) => {
  const on = await directories();
  await on.put("m/1-team/addon.yaml", text);
  expect(await accountsIn(on)).toEqual([expected]);
});

test("an addon.yaml that is a link to nothing, or a directory, may have named an account", async () => {
  const on = await directories();
  await on.put("m/1-team/values.yaml", "");
  await on.put("m/2-other/addon.yaml/file", "");
  await symlink(on.at("nowhere"), on.at("m/1-team/addon.yaml"));
  expect(await accountsIn(on)).toEqual(["unknown", "unknown"]);
});
