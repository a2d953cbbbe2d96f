// Writes the table of conformance in docs/get-started/install.md from the reports in conformance/reports, one for each operator.
//   node scripts/conformance-table.mjs                                    from the reports that are there
//   node scripts/conformance-table.mjs --report FILE --name 'NAME 1.2.3'  adds a report of `npm run conformance -- --report FILE`
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const root = new URL("..", import.meta.url).pathname;
const REPORTS = join(root, "conformance", "reports");
const PAGE = join(root, "docs", "get-started", "install.md");
const BEGIN = "<!-- made by node scripts/conformance-table.mjs -->";
const END = "<!-- end of conformance -->";
const MAX_REASON = 160;

/** What a report is kept for: the name of the operator, and of each case that fails the reason. */
export function keptPart(name, { kubernetes, cases }) {
  const failures = cases.filter(({ passed }) => !passed);
  return {
    name,
    kubernetes,
    cases: cases.map(({ id }) => id),
    failures: Object.fromEntries(failures.map(({ id, statement, failure }) => [id, { statement, failure }])),
  };
}

/** All kept reports. */
export function readReports(dir = REPORTS) {
  const files = readdirSync(dir).filter((file) => file.endsWith(".json"));
  return files.toSorted().map((file) => JSON.parse(readFileSync(join(dir, file), "utf8")));
}

const cell = (text) => text.replaceAll(/\s+/g, " ").replaceAll("|", "\\|").slice(0, MAX_REASON);
const scenarioOf = (id) => id.split("/")[0];
const row = (cells) => `| ${cells.join(" | ")} |`;

/** A row for each scenario, a column for each operator, and below it the cases that fail, with their reasons. */
export function tableOf(reports) {
  const scenarios = [...new Set(reports.flatMap(({ cases }) => cases.map(scenarioOf)))];
  const count = ({ cases, failures }, of) => {
    const own = cases.filter(of);
    return own.length === 0 ? "–" : `${own.filter((id) => !(id in failures)).length} of ${own.length}`;
  };
  const lines = [
    row(["Scenario", ...reports.map(({ name, kubernetes }) => `${name} on Kubernetes ${kubernetes}`)]),
    row(["---", ...reports.map(() => "---")]),
    ...scenarios.map((name) =>
      row([`\`${name}\``, ...reports.map((each) => count(each, (id) => scenarioOf(id) === name))]),
    ),
    row(["All", ...reports.map((each) => count(each, () => true))]),
  ];
  for (const { name, failures } of reports) {
    if (Object.keys(failures).length === 0) continue;
    lines.push(
      "",
      `${name} fails these cases:`,
      "",
      row(["Case", "Statement", "Result"]),
      row(["---", "---", "---"]),
    );
    for (const [id, { statement, failure }] of Object.entries(failures))
      lines.push(row([`\`${id}\``, cell(statement), cell(failure)]));
  }
  return lines.join("\n");
}

/** The page with the table of these reports. */
export function withConformance(page, reports) {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`the page has no ${BEGIN} … ${END}`);
  return `${page.slice(0, from + BEGIN.length)}\n\n${tableOf(reports)}\n\n${page.slice(to)}`;
}

function main() {
  const { values: flags } = parseArgs({ options: { report: { type: "string" }, name: { type: "string" } } });
  if ((flags.report === undefined) !== (flags.name === undefined))
    throw new Error("name the report with --report FILE and its operator with --name NAME");
  if (flags.report !== undefined) {
    const kept = keptPart(flags.name, JSON.parse(readFileSync(flags.report, "utf8")));
    const file = `${flags.name
      .replaceAll(/[\d.]+|[^A-Za-z-]+/g, "-")
      .replaceAll(/-+$/g, "")
      .toLowerCase()}.json`;
    writeFileSync(join(REPORTS, file), `${JSON.stringify(kept, undefined, 2)}\n`);
  }
  writeFileSync(PAGE, withConformance(readFileSync(PAGE, "utf8"), readReports()));
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) main();
