// The table of docs/get-started/install.md: a run replaces its own rows and leaves the others.
const head = "| Kubernetes | Helm | jq | `sh` | Tests | Passed | Failed | Date |";
const line = "|---|---|---|---|---|---|---|---|";
const begin = "<!-- made by npm run test:compat -->";
const end = "<!-- end -->";

const keyOf = (row) =>
  row
    .split("|")
    .slice(1, 5)
    .map((cell) => cell.trim())
    .join(" ");

/** `results` are `{ kubernetes, helm, jq, sh, tests, passed, failed, day }`. */
export function withResults(page, results) {
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from < 0 || to < from) throw new Error(`the page has no ${begin} … ${end}`);
  const rows = new Map(rowsIn(page).map((row) => [keyOf(row), row]));
  for (const { kubernetes, helm, jq, sh, tests, passed, failed, day } of results) {
    const row = `| ${[kubernetes, helm, jq, sh, tests, passed, failed, day].join(" | ")} |`;
    rows.set(keyOf(row), row);
  }
  const table = [head, line, ...[...rows.values()].toSorted((one, other) => one.localeCompare(other))].join(
    "\n",
  );
  return `${page.slice(0, from + begin.length)}\n\n${table}\n\n${page.slice(to)}`;
}

/** The rows that are there. */
export function rowsIn(page) {
  const table = page.slice(page.indexOf(begin), page.indexOf(end));
  return table.split("\n").filter((text) => text.startsWith("| ") && text !== head);
}
