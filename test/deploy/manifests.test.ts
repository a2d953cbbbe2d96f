import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { renderDeploy } from "../../scripts/render-deploy.mjs";
import { locate } from "../../scripts/setup/tools.mjs";
import { parseYaml } from "../../src/base/index.ts";

const text = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

test.skipIf(locate().missing.includes("helm"))(
  "deploy/manifests is what the chart renders (needs helm from `npm run setup`)",
  () => {
    expect(text("deploy/manifests/addon-operator.yaml")).toBe(renderDeploy());
  },
);

test.each(["addonmodules", "addonoperators"])("deploy/manifests has the CRD %s", (name) => {
  expect(text(`deploy/manifests/${name}.yaml`)).toBe(text(`crds/${name}.yaml`));
});

test("the namespace of deploy/manifests carries labels of Pod Security Admission", () => {
  const { metadata } = parseYaml(text("deploy/manifests/namespace.yaml"), "namespace").value as {
    metadata: { labels?: Record<string, string> };
  };
  const prefix = "pod-security.kubernetes.io";
  expect(metadata.labels).toEqual({
    [`${prefix}/enforce`]: "baseline",
    [`${prefix}/audit`]: "restricted",
    [`${prefix}/warn`]: "restricted",
  });
});
