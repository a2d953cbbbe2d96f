import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { redactHelmError } from "../../../src/helm/binary/reported-error.ts";

const LIVE = '{{ $db := lookup "v1" "Secret" .Release.Namespace "live" }}';

/** What is reported of an error of helm with a chart of this template. */
function reported(said: string, template: string, values: object = { web: { host: "a.example" } }): string {
  const dir = mkdtempSync(join(tmpdir(), "reported-error-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const file = (name: string, text: string): string => {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
    return join(dir, name);
  };
  file("chart/Chart.yaml", "name: web");
  file("chart/templates/a.yaml", template);
  const valuesFile = file("values.json", JSON.stringify(values));
  return redactHelmError(said, {
    release: "web",
    namespace: "ops",
    chartDir: join(dir, "chart"),
    valuesFile,
  });
}

describe("an error of a template", () => {
  const at = "execution error at (web/templates/a.yaml:1:61):";

  it.each([
    [
      "looks up",
      `${LIVE}{{ fail (printf "bad password %s of %s (%s)" $db.data.password .Values.web.host .Release.Name) }}`,
    ],
    ["makes", '{{ fail (printf "bad password %s of %s" (randAlphaNum 20) .Values.web.host) }}'],
  ])("shows words of chart and values only, where the chart %s secrets", (_, template) => {
    for (const secret of ["s3cretLive!x", "czNjcmV0TGl2ZSF4", "c-c", "47 11"]) {
      const displayed = reported(`${at} bad password ${secret} of a.example (web)`, template);
      expect(displayed).toBe(
        `${at} bad password ${secret.replaceAll(/\S+/g, "(hidden)")} of a.example (web)`,
      );
    }
  });

  it.each([
    "YAML parse error on web/templates/a.yaml: error converting YAML to JSON: yaml: unknown anchor 's3cret' referenced",
    'UPGRADE FAILED: template: web/templates/a.yaml:1:2: executing "web/templates/a.yaml" at <lookup>: parsing "s3cret": invalid syntax',
    'web/templates/a.yaml:1:2\n  executing "web/templates/a.yaml" at <lookup>:\n    missing closing ): `s3cret(`',
    "UPGRADE FAILED: execution error at (web/templates/a.yaml:1:2): s3cret",
  ])("hides other words that it quotes: %s", (said) => {
    expect(reported(said, LIVE)).toBe(said.replace(/s3cret\(?/, "(hidden)"));
  });

  it("is reported as it is where the chart neither looks up nor makes secrets", () => {
    const said = `${at} version 1.36 of 'Kubernetes' is too old`;
    expect(reported(said, "{{/* lookup */}}lookup: {{ fail .Capabilities.KubeVersion }}")).toBe(said);
  });

  it("shows nothing where its chart cannot be read", () => {
    const work = { release: "web", namespace: "ops", chartDir: "/nowhere" };
    expect(redactHelmError(`${at} s3cret`, work)).toBe(`${at} (hidden)`);
  });
});

it("an API server's error names the webhook that failed, but quotes no other foreign words", () => {
  const webhook = 'failed calling webhook "deny.s3cret-policy.example.com": failed to call webhook: Post';
  expect(reported(`${webhook} "https://x/s3cret2"`, LIVE)).toContain(`${webhook} "(hidden)"`);
  const denied = 'admission webhook "deny.policy.example.com" denied the request';
  expect(reported(denied, LIVE)).toBe(denied);
  expect(reported('failed calling webhook "s3cret"', LIVE)).toBe('failed calling webhook "(hidden)"');
});

it("an API server's error about a Secret quotes nothing of it", () => {
  const about =
    "server-side apply failed for object ops/db /v1, Kind=Secret: failed to create typed patch object";
  expect(reported(`${about}: .data.pin: expected string, got &value.valueUnstructured{Value:4711}`, "")).toBe(
    `${about}: .data.pin: expected string, got (hidden)`,
  );
  const other = 'Deployment "web" is invalid: spec.replicas: Invalid value: -1: must be greater';
  expect(reported(other, "")).toBe(other);
});

it("an API server's error about what a chart made of looked up objects quotes nothing of it", () => {
  const about = "UPGRADE FAILED: cannot patch";
  const label = `${about} "web" with kind Service: Service "web" is invalid: metadata.labels: Invalid value: "s3cret!": a label`;
  expect(reported(label, LIVE)).toBe(label.replace('"s3cret!"', "(hidden)"));
  const name = `${about} "s3cret" with kind Service`;
  expect(reported(name, LIVE)).toBe(`${about} "(hidden)" with kind Service`);
  expect(reported(label, "")).toBe(label);
});
