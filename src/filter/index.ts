export { FilterEngine, type Filter, type FilterEngineOptions } from "./engine.ts";
export { FilterError, type FilterFailure } from "./errors.ts";
