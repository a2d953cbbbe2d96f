export { findRoundedNumber } from "./exact-numbers.ts";
export type { Filter } from "./evaluate.ts";
export { FilterEngine, type FilterEngineOptions } from "./filter-engine.ts";
export { FilterError } from "./lexer.ts";
