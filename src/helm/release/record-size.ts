/** Estimates what helm's record of a release takes before there is one. */

import { gzipSync } from "node:zlib";

import { readPlain } from "../../lib/index.ts";
import type { Module } from "../../model/index.ts";
import { listChartFiles } from "../chart/chart-files.ts";

/** What a Secret, so a record, may hold: the API server's limit. */
export const LARGEST_RECORD = 1024 * 1024;

/**
 * Bytes of the record that helm would keep: manifest and files of the chart, without those of its sub-charts, packed
 * and in base64. Throws the file system's error.
 */
export function recordSize(module: Pick<Module, "chartDir" | "chart">, manifest: string): number {
  const files = listChartFiles(module.chartDir, module.chart === "synthetic")
    .filter(({ rel }) => !rel.startsWith("charts/"))
    .map(({ rel, path }) => ({ name: rel, data: readPlain(path).toString("base64") }));
  const packed = gzipSync(JSON.stringify({ chart: { files }, manifest }), { level: 9 });
  return Math.ceil(packed.length / 3) * 4;
}
