export {
  changedKeys,
  checkConfig,
  checkIdle,
  parseConfigMap,
  sectionIn,
  withSection,
  type JudgedConfig,
  type ParsedConfig,
  type ReadConfig,
} from "./config/config-map.ts";
export { CONFIG_MAP_LIMIT, nextConfigMapData, overlayFor, patchedSections } from "./config/config-write.ts";
export {
  NO_SETTINGS,
  MAINTENANCE,
  SETTINGS,
  describeUnknownKeys,
  guardKeys,
  keepsRelease,
  nearest,
  withMeant,
  type DriftMode,
  type ModuleSettings,
} from "./config/module-settings.ts";
export { basisIn, effective, merge, mergeLayers, withOverlay } from "./layers.ts";
export type { ConfigBasis, Effective, SectionInput } from "./layers.ts";
export { PatchAuthors, explain, originOf } from "./origin.ts";
export { PatchError, applyPatch, forStorage, replay, type PatchOperation } from "./patch/apply-patch.ts";
export { compact, parsePatch, parsePatches } from "./patch/hook-patches.ts";
export type { JudgedPatches, PatchRules } from "./patch/hook-patches.ts";
export { fillerOf } from "./schema/defaults.ts";
export { structuralSchema } from "./schema/schema-document.ts";
export { referencedFiles } from "./schema/references.ts";
export { compileSchemas, type Schemas } from "./schema/schemas.ts";
export { validatorOf, violationId, type Violation } from "./schema/validator.ts";
export { mustBeMap, parseCommonValues, parseDocument, parseMap, parseModuleValues } from "./static-values.ts";
export type { CommonValues, ModuleValues } from "./static-values.ts";
export {
  helmInput,
  helmValues,
  incompleteValues,
  invalidValues,
  valuesFiles,
  withoutHelm,
  type ValuesFiles,
} from "./values-files.ts";
export { ValuesStore, type ConfigFacts, type ValuesView } from "./values-store.ts";
