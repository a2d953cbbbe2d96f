export { runOffline, runUpgrade } from "./command.ts";
export { scoped } from "./surroundings.ts";
