import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";

import { parseYaml } from "../../../src/base/index.ts";
import { runOffline } from "../../support/command-line.ts";

// docs/guides/webhooks.md: what lint says of webhook bindings.

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "lint-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
});

/** A module without a chart, with one hook. */
function module(name: string, config: string): void {
  const file = join(root, "modules", name, "hooks/hook.sh");
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `#!/bin/sh\ncat <<'END'\nconfigVersion: v1\n${config}\nEND\n`);
  chmodSync(file, 0o755);
}

function lint(...args: string[]): Promise<{ code: number; text: string }> {
  const env = { PATH: process.env["PATH"], ADDON_OPERATOR_TMP_DIR: join(root, "tmp") };
  return runOffline("lint", [...args, join(root, "modules")], env);
}

const admission = (name: string, kind = "Validating") => `kubernetes${kind}: [{name: ${name}}]`;
const CONVERSION =
  "kubernetesCustomResourceConversion: [{name: c, crdName: crontabs.example.com, conversions: [{fromVersion: v1, toVersion: v2}]}]";

test("a mistake is named with its place", async () => {
  module("010-one", admission("short"));
  const { code, text } = await lint();
  expect(code).toBe(1);
  expect(text).toMatch(/kubernetesValidating\[0\]\.name: Invalid value: "short"/);
});

test("a mistake is named once, also if several directories contain it", async () => {
  module("010-one", admission("short"));
  const { text } = await lint();
  const modules = join(root, "modules");
  expect(await lint(modules, join(modules, "010-one"))).toEqual({ code: 1, text });
});

test("equal names of two modules are a problem; those of two kinds are none", async () => {
  module("010-one", admission("a.example.com"));
  module("020-two", admission("a.example.com", "Mutating"));
  expect((await lint()).code).toBe(0);
  module("030-three", admission("a.example.com"));
  const { code, text } = await lint();
  expect(code).toBe(1);
  expect(text).toContain("declares the validating webhook a.example.com, and so does");
});

test.each([
  `${admission("a.example.com")}\n${admission("b.example.com", "Mutating")}\n${CONVERSION}`,
  // The operator looks after both kinds of configuration in any case.
  CONVERSION,
])("lint --rbac includes the rights to register webhooks", async (config) => {
  module("010-one", config);
  const { rules } = parseYaml((await lint("--rbac")).text, "stdout").value as { rules: unknown };
  expect(rules).toContainEqual({
    apiGroups: ["admissionregistration.k8s.io"],
    resources: ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
    verbs: ["create", "delete", "get", "list", "update", "watch"],
  });
  expect(rules).toContainEqual({ apiGroups: [""], resources: ["services"], verbs: ["get"] });
  expect(rules).toContainEqual({
    apiGroups: ["apiextensions.k8s.io"],
    resources: ["customresourcedefinitions"],
    resourceNames: ["crontabs.example.com"],
    verbs: ["get", "list", "watch", "update"],
  });
});
