export { lintModulesDir } from "./lint.ts";
export { readTree } from "./read-tree.ts";
export type { ReadTreeOptions } from "./read-tree.ts";
