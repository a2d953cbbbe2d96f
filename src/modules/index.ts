export { ChartArchives } from "./chart/archives.ts";
export { listChartFiles, listChartFilesInSlices, type ChartFile } from "./chart/chart-files.ts";
export { locateChart, openChart, readChartWord, readChartYaml } from "./chart/find-chart.ts";
export type { LocatedChart } from "./chart/find-chart.ts";
export {
  ADDON_FILE,
  addonFilePath,
  findAddonProblem,
  MODULE_FILE,
  readAddonFile,
  type ChartLocation,
  type ChartSource,
} from "./chart/addon-file.ts";
export { explainInvalidName, splitEntryName } from "./read/scan-dir.ts";
export { warningToProblem, collectProblems, reportTree } from "./tree-problems.ts";
export { resolveDirectories } from "./directories.ts";
export { listHooks } from "./read/listing.ts";
export { readTree, TreeReader } from "./read/read-tree.ts";
export {
  CONTENT_LIMITS,
  digestContent,
  digestFile,
  hashModuleFiles,
  listEntries,
  type ContentDigests,
  type ContentLimits,
} from "./read/content.ts";
export { isConfirmedMissing, type RegistryModules } from "./read/reading.ts";
export { encodingProblem, refuseLinksOutside, stat } from "./read/files.ts";
export { Fingerprint } from "./read/fingerprint.ts";
export { identifyFile } from "./read/walk.ts";
