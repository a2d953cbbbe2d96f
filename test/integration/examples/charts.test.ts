// Run with helm 3 as well.
// Runs at night: documentation.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cluster, freshNamespace, helmUnderTest } from "../../support/cluster.ts";

const modules = join(import.meta.dirname, "..", "..", "..", "examples", "modules");

interface Rendered {
  items: { kind: string }[];
}

function render(module: string, values: object): string {
  const dir = join(modules, module);
  const files = ["-f", join(modules, "values.yaml"), "-f", join(dir, "values.yaml"), "-f", "-"];
  return execFileSync(helmUnderTest(), ["template", module.slice(4), dir, ...files], {
    encoding: "utf8",
    input: JSON.stringify(values),
  });
}

/** What hooks would have added, by module, and the kinds the API server must accept. */
const cases: [string, object, string[]][] = [
  ["001-priority-classes", {}, ["PriorityClass", "PriorityClass"]],
  ["002-internal-ca", { internalCa: { ca: { certificate: "c", key: "k" } } }, ["Secret"]],
  ["003-trust-bundle", { trustBundle: { internal: {} } }, ["ConfigMap"]],
  ["020-namespace-census", {}, ["ConfigMap"]],
];

test.each(cases)("the API server accepts what %s renders", async (module, values, kinds) => {
  expect(await accepted(module, values)).toEqual(kinds);
});

test("the API server accepts what 010-guard-rails renders for two namespaces", async () => {
  const namespaces = [
    { name: await freshNamespace("rails") },
    { name: await freshNamespace("rails"), pods: "3" },
  ];
  const kinds = await accepted("010-guard-rails", { guardRails: { internal: { namespaces } } });
  expect(kinds).toEqual(["LimitRange", "NetworkPolicy", "ResourceQuota"].flatMap((kind) => [kind, kind]));
});

async function accepted(module: string, values: object): Promise<string[]> {
  const manifest = render(module, values);
  const args = ["apply", "--dry-run=server", "--validate=strict", "-f", "-", "-o", "json"];
  const { items = [], ...single } = JSON.parse(await cluster().kubectl(args, manifest)) as Partial<Rendered>;
  const objects = items.length > 0 ? items : [single as { kind: string }];
  return objects.map(({ kind }) => kind).sort();
}
