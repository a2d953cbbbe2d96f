export { ChartArchives } from "./chart/archives.ts";
export { listChartFiles, type ChartFile } from "./chart/chart-files.ts";
export { readChartYaml, wordIn, findChart, openChart, type PlacedChart } from "./chart/find-chart.ts";
export { MODULE_FILE, readModuleFile, type ChartPlace, type ChartSource } from "./chart/module-file.ts";
export { refuseName, splitEntryName } from "./read/scan-dir.ts";
export { asProblem, layoutProblems, tellTree } from "./tree-problems.ts";
export { placesOf } from "./places.ts";
export { readTree } from "./read/read-tree.ts";
export { found, isSettled, stat } from "./read/files.ts";
