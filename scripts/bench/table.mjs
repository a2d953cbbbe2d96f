/** The figures as text: one line each, with its target where there is one. */
export function asTable(environment, rows) {
  const head = ["scenario", "figure", "measured", "at most", ""];
  const body = rows.map(({ scenario, what, value, unit, target }) => [
    scenario,
    what,
    shown(value, unit),
    target === undefined ? "" : shown(target, unit),
    verdict(value, target),
  ]);
  const all = [head, ...body];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column].length)));
  const line = (row) =>
    row
      .map((cell, column) => (column < 2 ? cell.padEnd(widths[column]) : cell.padStart(widths[column])))
      .join("  ");
  const facts = `${environment.cores} cores, Node ${environment.node}, Kubernetes ${environment.kubernetes}, helm ${environment.helm}, bundle ${(environment.bundleBytes / 1024 / 1024).toFixed(2)} MiB`;
  return [facts, "", ...all.map((row) => line(row).trimEnd())].join("\n");
}

function verdict(value, target) {
  if (target === undefined || value === undefined) return "";
  return value <= target ? "ok" : "ABOVE";
}

function shown(value, unit) {
  if (value === undefined) return "?";
  if (unit === "ms" && value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  return `${unit === "ms" || unit === "MB" ? value.toFixed(unit === "ms" && value < 100 ? 1 : 0) : value}${unit ? ` ${unit}` : ""}`;
}
