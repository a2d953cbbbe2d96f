export { lintModulesDir } from "./lint.ts";
export { placesOf } from "./places.ts";
export { readTree } from "./read-tree.ts";
export { tellTree } from "./tell-tree.ts";
