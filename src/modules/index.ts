export { ChartArchives } from "./chart/archives.ts";
export { openChart } from "./chart/find-chart.ts";
export { refuseName, splitEntryName } from "./entry-name.ts";
export { layoutProblems } from "./lint-layout.ts";
export { placesOf } from "./places.ts";
export { readTree } from "./read/read-tree.ts";
export { found, isSettled, stat, type Found } from "./read/signature.ts";
export { tellTree } from "./tell-tree.ts";
