/** The files of a chart, as helm would load them. */

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

import { parseYaml, readPlain } from "../../lib/index.ts";
import { objectOf, type JsonObject } from "../../model/index.ts";
import { found, stat, type Found } from "../../modules/index.ts";
import { parseHelmIgnore, type Ignore } from "./helm-ignore.ts";

/** A file of a chart, and its path below the chart. */
export interface ChartFile extends Found {
  readonly rel: string;
}

/** Directories that are left out of a generated chart. */
const NOT_CHART = new Set(["crds", "docs", "hooks", "images", "lib"]);

/** Every file that helm would load from `dir`, sorted. Throws the file system's error. */
export function listChartFiles(dir: string, synthetic: boolean): ChartFile[] {
  const files: ChartFile[] = [];
  const ignore = readIgnore(dir);
  const visit = (rel: string): void => {
    for (const name of readdirSync(join(dir, rel)).sort()) {
      const below = rel === "" ? name : `${rel}/${name}`;
      const path = join(dir, below);
      const stats = stat(path);
      if (stats === undefined || ignore(below, stats.isDirectory())) continue;
      if (stats.isDirectory() && !(synthetic && rel === "" && NOT_CHART.has(name))) visit(below);
      else if (stats.isFile()) files.push({ rel: below, ...found(path, stats) });
    }
  };
  visit("");
  return files;
}

function readIgnore(dir: string): Ignore {
  try {
    return parseHelmIgnore(readPlain(join(dir, ".helmignore")).toString("utf8"));
  } catch {
    return parseHelmIgnore("");
  }
}

/** The same as before when no file changed. */
export function fingerprintOf(files: readonly ChartFile[]): string {
  return files.map((file) => `${file.rel}\0${file.signature}`).join("\n");
}

/** The text of a file that may hold templates; packed sub-charts are unpacked. */
export function contentOf(rel: string, bytes: Buffer): string {
  if (!/\.(tgz|tar\.gz)$/.test(rel)) return bytes.toString("utf8");
  try {
    return gunzipSync(bytes, { maxOutputLength: 64 * 1024 * 1024 }).toString("utf8");
  } catch {
    // A file that cannot be read may use anything.
    return "{{ tpl . }}{{ .Capabilities }}";
  }
}

/** True for files that helm renders. */
export function isTemplate(rel: string): boolean {
  return (
    /^(?:charts\/[^/]+\/)*templates\//.test(rel) ||
    /^(?:charts\/[^/]+\/)*charts\/[^/]+\.(tgz|tar\.gz)$/.test(rel)
  );
}

/** The map in a YAML file; empty where it is missing or broken, which helm tells when it renders the chart. */
export function readMap(file: string): JsonObject {
  try {
    return objectOf(parseYaml(readPlain(file).toString("utf8"), file).value);
  } catch {
    return {};
  }
}
