/** Writes metrics in Prometheus' text format. */

import type { HookFamily, HookSeries } from "./hook-metrics.ts";

/**
 * Families in Prometheus' text format, by name. All series of a family have the same labels; a label that a series
 * lacks is empty.
 */
export function describeFamilies(families: Iterable<HookFamily>): string {
  const sorted = [...families].sort((a, b) => (a.name < b.name ? -1 : 1));
  return sorted.map(describeFamily).join("");
}

function describeFamily(family: HookFamily): string {
  const { name, type, series } = family;
  const labels = new Set([...series.values()].flatMap((one) => Object.keys(one.labels)));
  const names = [...labels].sort();
  const lines = [...series.values()].flatMap((one) => linesOf(family, one, names));
  return `# HELP ${name} ${name}\n# TYPE ${name} ${type}\n${lines.join("\n")}\n`;
}

function linesOf({ name, type }: HookFamily, series: HookSeries, names: readonly string[]): string[] {
  const labels = names.map((label) => `${label}="${escape(series.labels[label] ?? "")}"`).join(",");
  if (type !== "histogram") return [`${name}{${labels}} ${series.value}`];
  const { buckets, counts, count, value } = series;
  const limits = [...buckets.map(String), "+Inf"];
  return [
    ...limits.map((limit, place) => `${name}_bucket{${labels},le="${limit}"} ${counts[place] ?? count}`),
    `${name}_sum{${labels}} ${value}`,
    `${name}_count{${labels}} ${count}`,
  ];
}

function escape(value: string): string {
  return value
    .replaceAll("\\", String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll("\n", String.raw`\n`);
}
