export { applyPatch, forStorage, replay } from "./apply-patch.ts";
export { MANY_OPERATIONS, compact } from "./compact.ts";
export { NO_RECONCILIATION, changedKeys, parseConfigMap, withOverlay } from "./config-map.ts";
export type { ParsedConfig } from "./config-map.ts";
export { describeUnknownKeys } from "./meant-key.ts";
export {
  CONFIG_MAP_LIMIT,
  checkDataSize,
  nextConfigMapData,
  overlayFor,
  patchedSection,
  sectionYaml,
} from "./config-write.ts";
export type { ConfigEdit, ConfigWrite } from "./config-write.ts";
export { explain, originOf } from "./explain.ts";
export type { LayerName, Origin, Places } from "./explain.ts";
export { effective } from "./layers.ts";
export type { Effective, SectionInput } from "./layers.ts";
export { merge, mergeLayers } from "./merge.ts";
export { parsePatch } from "./parse-patch.ts";
export { PatchError } from "./patch.ts";
export type { ParsedPatch, PatchOperation, PatchRules } from "./patch.ts";
export { compileSchemas } from "./schemas.ts";
export type { Schemas, Violation } from "./schemas.ts";
export { parseCommonValues, parseModuleValues } from "./static-values.ts";
export type { CommonValues, ModuleValues, SectionAndFlag } from "./static-values.ts";
