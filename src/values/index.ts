export { PatchError, applyPatch, forStorage, replay, type PatchOperation } from "./patch/apply-patch.ts";
export { MANY_OPERATIONS, compact } from "./patch/compact.ts";
export {
  changedKeys,
  describeUnknownKeys,
  parseConfigMap,
  sectionIn,
  withMeant,
  withOverlay,
  withSection,
  type ParsedConfig,
} from "./config/parse-config-map.ts";
export { NO_SETTINGS, SETTINGS, guardKeys, keepsRelease } from "./config/module-settings.ts";
export type { DriftMode, ModuleSettings } from "./config/module-settings.ts";
export { CONFIG_MAP_LIMIT, nextConfigMapData, overlayFor, patchedSections } from "./config/config-write.ts";
export type { Sections } from "./config/config-write.ts";
export { PatchAuthors, explain, locate, originOf, placesIn, wordsOf } from "./origin.ts";
export type { Located, Written } from "./origin.ts";
export { effective, helmValues, merge, mergeLayers, refuseList } from "./layers.ts";
export type { Effective, SectionInput } from "./layers.ts";
export { checkPatched, judgePatches, parsePatch, parsePatches } from "./patch/judge-patches.ts";
export type { JudgedPatches, PatchTarget, PatchRules } from "./patch/judge-patches.ts";
export { fillerOf } from "./schema/defaults.ts";
export { structuralSchema } from "./schema/schema-document.ts";
export { compileSchemas } from "./schema/schemas.ts";
export type { Schemas } from "./schema/schemas.ts";
export { validatorOf, violationId, type Violation } from "./schema/validator.ts";
export { mustBeMap, parseCommonValues, parseDocument, parseMap, parseModuleValues } from "./static-values.ts";
export type { CommonValues, ModuleValues } from "./static-values.ts";
