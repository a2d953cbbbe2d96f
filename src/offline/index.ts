export { runOffline } from "./command.ts";
export { scoped } from "./surroundings.ts";
