import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { keptPart, readReports, tableOf, withConformance } from "../../scripts/conformance-table.mjs";

const root = new URL("../..", import.meta.url).pathname;

test("the page has the table of the reports", () => {
  const page = readFileSync(join(root, "docs/get-started/install.md"), "utf8");
  expect(page, "run node scripts/conformance-table.mjs").toBe(withConformance(page, readReports()));
});

test("the report of this operator has the cases of the suite, and all pass", () => {
  const list = execFileSync(process.execPath, [join(root, "conformance/run.mjs"), "--list"]).toString();
  const ids = list
    .trim()
    .split("\n")
    .map((line) => line.split("\t")[0]);
  const own = readReports().find(({ name }) => name.startsWith("This operator"));
  // conformance/README.md describes how to make the report again.
  expect(own?.cases).toEqual(ids);
  expect(own?.failures).toEqual({});
});

test("another operator is a column more, and its failures are listed", () => {
  const cases = [
    { id: "start/a", statement: "One | two.", passed: true },
    { id: "start/b", statement: "Three.", passed: false, failure: "not\nwithin 60 s" },
  ];
  const one = keptPart("One 1.0", {
    kubernetes: "v1.36.2",
    cases: cases.map((each) => ({ ...each, passed: true })),
  });
  const other = keptPart("Other 2.0", { kubernetes: "v1.36.2", cases });
  expect(tableOf([one, other]))
    .toBe(`| Scenario | One 1.0 on Kubernetes v1.36.2 | Other 2.0 on Kubernetes v1.36.2 |
| --- | --- | --- |
| \`start\` | 2 of 2 | 1 of 2 |
| All | 2 of 2 | 1 of 2 |

Other 2.0 fails these cases:

| Case | Statement | Result |
| --- | --- | --- |
| \`start/b\` | Three. | not within 60 s |`);
});
