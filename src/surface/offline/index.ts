export { lintDirs, printRbac } from "./lint.ts";
export { writeHook } from "./new/new-hook.ts";
export { writeModule } from "./new/new-module.ts";
export { upgradeChart } from "./new/upgrade-chart.ts";
export { pullSource, pushSource, tagSource } from "./source.ts";
export { withTools } from "./shared.ts";
export { runHookOffline } from "./try-hook.ts";
