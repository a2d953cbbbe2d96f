import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { EVENT_REASONS } from "../../src/status/index.ts";
import { listOwnPermissions } from "../../src/kube/rights.ts";

const root = join(import.meta.dirname, "../..");
const page = readFileSync(join(root, "docs/reference/status.md"), "utf8");
const words = (text: string): string[] => [...text.matchAll(/`(\w+)`/g)].map(([, word = ""]) => word);

/** The section under a heading. */
function section(title: string): string {
  const from = page.indexOf(`## ${title}\n`);
  const end = page.indexOf("\n## ", from + 1);
  return page.slice(from, end < 0 ? undefined : end);
}

test("the table of Events lists every reason with its type", () => {
  const rows = [...section("Events").matchAll(/^\| Addon\w+ \| (.*) \| (Normal|Warning) \|$/gm)];
  const reported = rows.flatMap(([, reasons = "", type]) => words(reasons).map((reason) => [reason, type]));
  expect(Object.fromEntries(reported)).toEqual(
    Object.fromEntries(Object.entries(EVENT_REASONS).map(([reason, { type }]) => [reason, type])),
  );
  expect(reported).toHaveLength(Object.keys(EVENT_REASONS).length);
});

test("every Event that is documented is written somewhere", () => {
  const sources = globSync("src/{tasks,metrics,wiring,module-sources/leader}/*.ts", { cwd: root }).map(
    (file) => readFileSync(join(root, file), "utf8"),
  );
  const written = (reason: string): boolean => sources.some((source) => source.includes(`"${reason}"`));
  expect(Object.keys(EVENT_REASONS).filter((reason) => !written(reason))).toEqual([]);
});

test("the rights are those that the operator asks for", () => {
  const verbs = (resource: string, subresource?: string): string[] =>
    listOwnPermissions("ns", "ConfigMap")
      .filter((right) => right.resource === resource && right.subresource === subresource)
      .map((right) => right.verb);
  const all = ["get", "list", "watch", "create", "patch", "delete"];
  expect(verbs("addonmodules")).toEqual(all);
  expect(verbs("addonoperators")).toEqual(all.filter((verb) => verb !== "delete"));
  expect([verbs("addonmodules", "status"), verbs("addonoperators", "status")]).toEqual([
    ["patch"],
    ["patch"],
  ]);
  expect(verbs("events")).toEqual(["create", "patch"]);
  expect(section("Rights and CRDs").replaceAll("\n", " ")).toContain(
    "The operator needs get, list, watch, create, patch and delete on `addonmodules`, the same without delete on `addonoperators`, patch on the `status` of both, and create and patch on `events` of `events.k8s.io`.",
  );
});
