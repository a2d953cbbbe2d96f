/** Finds what is wrong with the rendered manifest of a module, for `lint`. */

import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { readRegularFile } from "../../lib/index.ts";
import type { Module, Problem } from "../../model/index.ts";
import { findChartFiles } from "../chart/chart.ts";
import type { FileFindings } from "../chart/file-problems.ts";
import { findManifestProblems } from "./manifest-problems.ts";
import { findApplyWarnings, findFloatWarnings, findWebhookWarnings } from "./manifest-warnings.ts";
import { parseDocuments } from "./manifest.ts";

/** Finds what the API server refuses or helm cannot store, and warns of what the author of the chart hardly means. */
export function findRenderedProblems(module: Module, manifest: string): FileFindings {
  const documents = parseDocuments(manifest);
  const toProblems = (messages: readonly string[], remedy?: string): Problem[] =>
    messages.map((message) => ({ file: module.dir, message, ...(remedy !== undefined && { remedy }) }));
  const rendered = (texts: readonly string[]): string[] => texts.map((text) => `renders ${text}`);
  // Helm 4 cannot install these objects with server-side apply, its default.
  const unappliable = module.helm?.apply === "client" ? [] : findApplyWarnings(documents);
  return {
    problems: [
      ...toProblems(rendered(findManifestProblems(documents))),
      ...findRecordProblems(module, manifest),
    ],
    warnings: [
      ...toProblems(
        findWebhookWarnings(documents),
        "name the resources that it needs, add a namespaceSelector, or set failurePolicy: Ignore",
      ),
      ...toProblems(rendered(unappliable), "correct the chart, or set helm: {apply: client} in addon.yaml"),
      ...toProblems(
        rendered(findFloatWarnings(documents)),
        "print integers of values with the function int64",
      ),
    ],
  };
}

/** The API server's size limit of a Secret, and so of a record, in bytes. */
const MAX_SECRET_BYTES = 1024 * 1024;

/** Finds a release that helm could not store: its record must fit into a Secret. */
function findRecordProblems(module: Module, manifest: string): Problem[] {
  const size = computeRecordSize(module, manifest);
  if (size <= MAX_SECRET_BYTES) return [];
  const hasCrds = module.crdFiles.length > 0 || manifest.includes("kind: CustomResourceDefinition");
  const mebibytes = (size / MAX_SECRET_BYTES).toFixed(1);
  const message = `helm's release record would have ${mebibytes} MiB, but a Secret has a limit of 1 MiB`;
  const remedy = hasCrds
    ? `move large CRDs from the chart to ${join(module.dir, "crds")}`
    : "list files that no template reads in .helmignore, or split the chart";
  return [{ file: module.dir, message, remedy }];
}

/**
 * Computes how many bytes helm's record of a release would have, because the API server limits the size of a Secret. helm stores the
 * manifest and the files of the chart, without those of its sub-charts, compressed and in base64 (4 characters for 3 bytes). Throws the
 * file system's error.
 */
function computeRecordSize(module: Pick<Module, "chartDir" | "chart">, manifest: string): number {
  const files = findChartFiles(module)
    .filter(({ rel }) => !rel.startsWith("charts/"))
    .map(({ rel, path }) => ({ name: rel, data: readRegularFile(path).toString("base64") }));
  const packed = gzipSync(JSON.stringify({ chart: { files }, manifest }), { level: 9 });
  return Math.ceil(packed.length / 3) * 4;
}
