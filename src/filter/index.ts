export { FilterEngine, type FilterEngineOptions } from "./engine.ts";
export { FilterError } from "./errors.ts";
