import { globSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "vitest";

import { root } from "../../scripts/setup/versions.mjs";
import { compareWithBudgets, measureModules, MIB } from "../support/budgets.ts";

test("the bundle", () => {
  const files = globSync("*.js", { cwd: join(root, "dist") });
  const bytesOf = (names: readonly string[]): number =>
    names.reduce((sum, file) => sum + statSync(join(root, "dist", file)).size, 0);
  // Loaded with the first signature that has a certificate.
  const ofCertificates = files.filter((file) => file.startsWith("keyless-"));
  compareWithBudgets({
    "bundle, MiB": bytesOf(files.filter((file) => !ofCertificates.includes(file))) / MIB,
    "bundle: verification of certificates, MiB": bytesOf(ofCertificates) / MIB,
  });
});

test("20 modules", { timeout: 400_000 }, () => measureModules(20));
