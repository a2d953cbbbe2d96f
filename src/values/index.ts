export { applyPatch, forStorage, replay } from "./patch/apply-patch.ts";
export { MANY_OPERATIONS, compact } from "./compact.ts";
export {
  changedKeys,
  parseConfigMap,
  sectionIn,
  withOverlay,
  withSection,
} from "./config/parse-config-map.ts";
export { NO_SETTINGS, SETTINGS, guardKeys, keepsRelease } from "./config/module-settings.ts";
export type { DriftMode, ModuleSettings } from "./config/module-settings.ts";
export type { ParsedConfig } from "./config/parse-config-map.ts";
export { describeUnknownKeys, withMeant } from "./config/meant-key.ts";
export { CONFIG_MAP_LIMIT, nextConfigMapData, overlayFor, patchedSections } from "./config/config-write.ts";
export type { Sections } from "./config/config-write.ts";
export { explain, originOf } from "./origin.ts";
export type { LayerName, Origin, Places } from "./origin.ts";
export { effective, helmValues, refuseList } from "./layers.ts";
export type { Effective, SectionInput } from "./layers.ts";
export { merge, mergeLayers } from "./merge.ts";
export { checkPatched, judgePatches } from "./patch/judge-patches.ts";
export type { JudgedPatches, PatchTarget } from "./patch/judge-patches.ts";
export { parsePatch, parsePatches } from "./patch/parse-patch.ts";
export { PatchError } from "./patch/parse-patch.ts";
export type { PatchOperation, PatchRules } from "./patch/parse-patch.ts";
export { violationId } from "./schema/ajv.ts";
export { fillerOf } from "./schema/defaults.ts";
export { structuralSchema } from "./schema/schema-document.ts";
export { compileSchemas } from "./schema/schemas.ts";
export type { Schemas, Violation } from "./schema/schemas.ts";
export { validatorOf } from "./schema/validator.ts";
export { mustBeMap, parseCommonValues, parseDocument, parseMap, parseModuleValues } from "./static-values.ts";
export type { CommonValues, ModuleValues } from "./static-values.ts";
