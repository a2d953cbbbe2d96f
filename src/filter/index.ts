export { FilterEngine, type Filter, type FilterEngineOptions } from "./filter-engine.ts";
export { FilterError } from "./filter-error.ts";
