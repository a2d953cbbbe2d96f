export { ChartArchives } from "./chart/archives.ts";
export { findChart, openChart, type PlacedChart } from "./chart/find-chart.ts";
export { MODULE_FILE, readModuleFile, type ChartPlace, type ChartSource } from "./chart/module-file.ts";
export { refuseName, splitEntryName } from "./entry-name.ts";
export { asProblem, layoutProblems } from "./lint-layout.ts";
export { placesOf } from "./places.ts";
export { readTree } from "./read/read-tree.ts";
export { found, isSettled, stat, type Found } from "./read/signature.ts";
export { tellTree } from "./tell-tree.ts";
