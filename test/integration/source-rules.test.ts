import { expect, test } from "vitest";

import { mapInParallel } from "../../src/base/index.ts";
import { cluster, freshNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";

// crds/modulesources.yaml: what no ModuleSource may say is refused when it is written, with field and remedy.

const MODULES = { registry: "oci://registry.example.com/modules" };
const CHARTS = { charts: "oci://registry.example.com/charts" };
const REPOSITORY = { charts: "https://charts.example.com/stable", unsigned: true };
const CALLS = 4;

const web = (wish: object): object => ({ modules: { web: wish } });
const named = (count: number): object => ({
  modules: Object.fromEntries(
    Array.from({ length: count }, (_, index) => [`m${index}`, { version: "1.0.0" }]),
  ),
});
const window = (open: string): object => ({ update: { windows: [{ cron: "0 2 * * *", for: open }] } });

const REFUSED: readonly (readonly [spec: object, message: RegExp])[] = [
  [{ ...MODULES, ...CHARTS }, /spec: .*needs either registry or charts/],
  [{}, /spec: .*needs either registry or charts/],
  [{ ...MODULES, unsigned: true }, /unsigned requires charts/],
  [{ ...REPOSITORY, unsigned: false }, /a chart repository has no signatures: set unsigned to true/],
  [{ charts: REPOSITORY.charts }, /a chart repository has no signatures: set unsigned to true/],
  [{ ...REPOSITORY, charts: "http://charts.example.com" }, /http:\/\/ needs plainHttp: true/],
  [{ ...REPOSITORY, mirrors: ["oci://m.example/a"] }, /mirrors require a registry with signed content/],
  [{ ...CHARTS, unsigned: true, mirrors: ["oci://m.example/a"] }, /mirrors require a registry/],
  [{ ...MODULES, mirrors: ["oci://m.example/a:1"] }, /spec\.mirrors\[0\]: .*must have the form oci:\/\//],
  [{ ...MODULES, ...web({ version: "1.0.0", chart: "web" }) }, /chart and module require charts/],
  [{ ...MODULES, ...web({ version: "1.0.0", module: {} }) }, /chart and module require charts/],
  [{ ...REPOSITORY, ...web({ tag: "stable" }) }, /a chart repository has no tags: name a version or a range/],
  [{ registry: "https://registry.example.com/m" }, /spec\.registry: .*must have the form oci:\/\/HOST\/PATH/],
  [{ registry: "oci://user:password@registry.example.com/m" }, /spec\.registry: .*without user, tag/],
  [{ registry: "oci://registry.example.com/m:1" }, /spec\.registry: .*without user, tag/],
  [{ ...REPOSITORY, charts: "https://u:p@charts.example.com" }, /spec\.charts: .*without user, tag/],
  [
    { ...REPOSITORY, charts: "charts.example.com" },
    /spec\.charts: .*must have the form oci:\/\/HOST\/PATH or/,
  ],
  [{ ...MODULES, interval: "29s" }, /spec\.interval: .*must be a duration of at least 30s/],
  [{ ...MODULES, interval: "5" }, /spec\.interval: .*must be a duration of at least 30s/],
  [{ ...MODULES, ...web({}) }, /spec\.modules.web.?: .*needs a version, a digest, or both, or only a tag/],
  [{ ...MODULES, ...web({ tag: "a", version: "1.0.0" }) }, /spec\.modules.web.?: .*or only a tag/],
  [{ ...MODULES, ...web({ tag: "a/b" }) }, /spec\.modules.web.?\.tag: /],
  [{ ...MODULES, ...web({ version: "" }) }, /spec\.modules.web.?\.version: /],
  [{ ...MODULES, ...web({ digest: "sha256:1" }) }, /spec\.modules.web.?\.digest: /],
  [{ ...MODULES, ...web({ version: "1.0.0", order: -1 }) }, /spec\.modules.web.?\.order: /],
  [{ ...MODULES, ...web({ version: "1.0.0", mood: "good" }) }, /unknown field "spec\.modules\.web\.mood"/],
  [{ ...MODULES, ...named(501) }, /spec\.modules: Too many/],
  [{ ...MODULES, ...window("0s") }, /windows\[0\]\.for: .*more than 0s and at most 168h/],
  [{ ...MODULES, ...window("169h") }, /windows\[0\]\.for: .*more than 0s and at most 168h/],
  [{ ...MODULES, update: { approval: "never" } }, /spec\.update\.approval: /],
  [{ ...MODULES, update: { parallel: 0 } }, /spec\.update\.parallel: /],
  [{ ...MODULES, update: { after: "a day" } }, /spec\.update\.after: /],
];

const ACCEPTED: readonly object[] = [
  { ...MODULES, ...named(500) },
  { ...MODULES, mirrors: ["oci://m.example/a"], interval: "30s", ...web({ version: "~1.4", order: 10 }) },
  { ...MODULES, ...window("168h"), ...web({ version: "1.0.0", digest: `sha256:${"a".repeat(64)}` }) },
  { ...CHARTS, unsigned: true, ...web({ tag: "stable", chart: "web", module: { retries: 2 } }) },
  { ...CHARTS, mirrors: ["oci://m.example/a"] },
  { ...REPOSITORY, charts: "http://charts.example.com", plainHttp: true, ...web({ version: "^1" }) },
];

test("the API server refuses what no ModuleSource may say", { timeout: 240_000 }, async () => {
  await installCrds();
  const { kubectl } = cluster();
  const namespace = await freshNamespace("source-rules");
  const answerTo = (spec: object): Promise<string> =>
    kubectl(
      ["create", "--dry-run=server", "--validate=strict", "-f", "-"],
      JSON.stringify({
        apiVersion: "addon-operator.io/v1alpha1",
        kind: "ModuleSource",
        metadata: { name: "platform", namespace },
        spec,
      }),
    ).catch(String);
  const answers = await mapInParallel(CALLS, REFUSED, ([spec]) => answerTo(spec));
  for (const [index, [, message]] of REFUSED.entries()) expect(answers[index]).toMatch(message);
  for (const answer of await mapInParallel(CALLS, ACCEPTED, answerTo))
    expect(answer).toContain("modulesource.addon-operator.io/platform created");
});
