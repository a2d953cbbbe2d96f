export { applyPatch, replay } from "./apply-patch.ts";
export * from "./compact.ts";
export * from "./config-map.ts";
export * from "./effective.ts";
export { merge, mergeLayers } from "./merge.ts";
export { parsePatch } from "./parse-patch.ts";
export * from "./patch.ts";
export { compileSchemas } from "./schemas.ts";
export type { Schemas, Violation } from "./schemas.ts";
