export { lintDirs, rbacOf } from "./lint.ts";
export { writeHook } from "./new/new-hook.ts";
export { writeModule } from "./new/new-module.ts";
export { upgradeChart } from "./new/upgrade-chart.ts";
export { scoped } from "./surroundings.ts";
export { runHookOffline } from "./try-hook.ts";
