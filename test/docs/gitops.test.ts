import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { locate } from "../../scripts/setup/tools.mjs";
import { parseYaml } from "../../src/base/index.ts";
import type { JsonObject } from "../../src/base/model/index.ts";
import { parseConfigMap } from "../../src/values/index.ts";
import { render } from "../charts/matrix.ts";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const page = read("docs/guides/gitops.md");

/** The blocks of YAML under a heading that begins so. */
function examples(title: string): JsonObject[] {
  const from = page.indexOf(`### ${title}`);
  const section = page.slice(from, page.indexOf("\n#", from + 1));
  return [...section.matchAll(/```yaml\n([^]*?)```/g)].map(
    ([, text = ""]) => parseYaml(text, title).value as JsonObject,
  );
}

test.skipIf(locate().missing.includes("helm"))("the values of B give the operator that overlay", () => {
  const [values = {}] = examples("B.");
  expect(render("helm", values)).toMatch(/value: "?secret\/addon-operator-state"?$/m);
});

test("the parts of Argo CD's Application in C are those of deploy/argo-cd/application.yaml", () => {
  const [reported = {}] = examples("C.");
  const { spec } = parseYaml(read("deploy/argo-cd/application.yaml"), "application").value as {
    spec: JsonObject;
  };
  const { ignoreDifferences, syncPolicy } = reported["spec"] as JsonObject;
  expect(ignoreDifferences).toEqual(spec["ignoreDifferences"]);
  expect((spec["syncPolicy"] as JsonObject)["syncOptions"]).toEqual(
    expect.arrayContaining((syncPolicy as JsonObject)["syncOptions"] as string[]),
  );
});

test("the ConfigMap of D switches a module on, and says nothing else", () => {
  const [map = {}] = examples("D.");
  const known = [{ valuesKey: "ingressNginx" }];
  const parsed = parseConfigMap("ConfigMap", map["data"] as Record<string, string>, known);
  expect([...parsed.flags]).toEqual([["ingressNginx", true]]);
  expect([parsed.problems, parsed.unknownKeys, parsed.sections.size]).toEqual([[], [], 0]);
});
