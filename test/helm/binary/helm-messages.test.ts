import { expect, it } from "vitest";

import { extractReason } from "../../../src/helm/binary/helm-messages.ts";
import type { HelmError } from "../../../src/helm/index.ts";
import { KnownSecrets, oneLine } from "../../../src/base/index.ts";

const reason = (stderr: string): string => {
  const result = { outcome: "failed", message: "exit code 1", stdout: "", stderr };
  return extractReason(result as HelmError["result"], (said) => said);
};

it("a long error of nested templates keeps where it was, and what is wrong", () => {
  const step = (depth: number): string =>
    `web/templates/_helpers.tpl:${depth}:33\n  executing "web.store" at <include "web.store${depth}" (list $ "default")>:\n    error calling include:\n`;
  const chain = Array.from({ length: 9 }, (_, depth) => step(depth)).join("");
  const message = reason(`Error: web/templates/secret.yaml:1:25\n${chain}  set web.password\n`);
  // As the status and the log cut it.
  expect(oneLine(message)).toMatch(/^web\/templates\/secret\.yaml:1:25 .* … .* set web\.password$/);
});

it("a value of a field that cannot change does not hide the field", () => {
  const template = `core.PodTemplateSpec{Spec:core.PodSpec{${"Env:[]core.EnvVar(nil), ".repeat(40)}}}`;
  const refused = `spec.template: Invalid value: ${template}: field is immutable`;
  expect(
    reason(`Error: Job.batch "x" is invalid: [${refused}, spec.a: Invalid value: "b": field is immutable]`),
  ).toBe(
    'Job.batch "x" is invalid: [spec.template: field is immutable, spec.a: Invalid value: "b": field is immutable]',
  );
});

it("a short one is reported as it is", () => {
  expect(reason("WARNING: x\nError: set web.password\n")).toBe("set web.password");
});

it("a secret at both sides of a cut can still be hidden", () => {
  const secrets = new KnownSecrets();
  secrets.register({ password: "s3cr3t-LEAK-1234" });
  // The names of objects that the API server refuses.
  const names = Array.from({ length: 80 }, () => "s3cr3t-LEAK-1234");
  for (let shift = 0; shift < 20; shift++) {
    const message = reason(
      `Error: ${"x".repeat(shift)} Invalid value: ${names.join(",")}: lower case ${"y".repeat(shift)}`,
    );
    expect(message).toContain(" … ");
    expect(secrets.redact(message)).not.toMatch(/s3cr|LEAK|1234/);
  }
});
