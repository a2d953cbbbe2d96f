/** The figures as text: one line each, with its target where there is one. */
export function asTable(environment, rows) {
  const head = ["scenario", "figure", "measured", "at most", ""];
  const body = rows.map(({ scenario, what, value, unit, target }) => [
    scenario,
    what,
    displayed(value, unit),
    target === undefined ? "" : displayed(target, unit),
    verdict(value, target),
  ]);
  return [facts(environment), "", ...columns([head, ...body])].join("\n");
}

/** Comparisons as text: medians with the least and the most, and whether the difference is more than noise. */
export function asComparison(environment, { revision, runs }, rows) {
  const head = ["scenario", "figure", revision, "", "here", "", "change", ""];
  const body = rows.map(({ scenario, what, unit, before, after, change, clear }) => [
    scenario,
    what,
    ...[before, after].flatMap(({ median, least, most }) => [
      displayed(median, unit),
      `${displayed(least, unit)} to ${displayed(most, unit)}`,
    ]),
    change === undefined ? "" : `${change > 0 ? "+" : ""}${(change * 100).toFixed(1)} %`,
    clear ? "clear" : "noise",
  ]);
  return [`${facts(environment)}, ${runs} runs of each in turn`, "", ...columns([head, ...body])].join("\n");
}

function facts({ cores, node, kubernetes, helm, bundleBytes }) {
  return `${cores} cores, Node ${node}, Kubernetes ${kubernetes}, helm ${helm}, bundle ${(bundleBytes / 1024 / 1024).toFixed(2)} MiB`;
}

/** Lines of cells, the first two to the left. */
function columns(all) {
  const widths = all[0].map((_, column) => Math.max(...all.map((row) => row[column].length)));
  const line = (row) =>
    row
      .map((cell, column) => (column < 2 ? cell.padEnd(widths[column]) : cell.padStart(widths[column])))
      .join("  ");
  return all.map((row) => line(row).trimEnd());
}

function verdict(value, target) {
  if (target === undefined || value === undefined) return "";
  return value <= target ? "ok" : "ABOVE";
}

function displayed(value, unit) {
  if (value === undefined) return "?";
  if (unit === "ms" && value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  if (unit === "ms") return `${value.toFixed(value < 100 ? 1 : 0)} ms`;
  if (unit === "MB") return `${value.toFixed(0)} MB`;
  return `${Number(value.toFixed(2))}${unit ? ` ${unit}` : ""}`;
}
