export { runOffline } from "./command.ts";
export { previewStart } from "./start-preview.ts";
export { scoped } from "./surroundings.ts";
