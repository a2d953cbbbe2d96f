import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { EVENT_REASONS } from "../../src/report/index.ts";
import { listOwnPermissions } from "../../src/kube/permissions.ts";

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
  const sources = globSync("src/{engine/tasks,report/metrics,main/wiring,sources/leader}/*.ts", {
    cwd: root,
  }).map((file) => readFileSync(join(root, file), "utf8"));
  const written = (reason: string): boolean => sources.some((source) => source.includes(`"${reason}"`));
  expect(Object.keys(EVENT_REASONS).filter((reason) => !written(reason))).toEqual([]);
});

test("the permissions are those that the operator requests", () => {
  const rows = [...section("Permissions and CRDs").matchAll(/^\| `[^`]*` \| `([\w/]+)` \| (.*) \|$/gm)];
  const documented = rows.map(([, resource = "", verbs = ""]) => [resource, verbs.split(", ")]);
  const rights = listOwnPermissions("ns", "ConfigMap").map(({ resource, subresource, verb }) => ({
    name: subresource === undefined ? resource : `${resource}/${subresource}`,
    verb,
  }));
  const requested = documented.map(([resource]) => [
    resource,
    rights.filter(({ name }) => name === resource).map(({ verb }) => verb),
  ]);
  expect(documented).toHaveLength(5);
  expect(documented).toEqual(requested);
});
