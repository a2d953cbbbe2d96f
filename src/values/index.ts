export {
  applyConfig,
  changedKeys,
  checkConfig,
  checkDisabledModules,
  findBlockingProblems,
} from "./config/check-config.ts";
export { collectConfigFacts } from "./config/check-config.ts";
export type { ConfigFacts, ReadConfig, AppliedConfig } from "./config/check-config.ts";
export { findSection, parseConfigMap, reparseConfigMap } from "./config/config-map.ts";
export { withSection } from "./config/config-map.ts";
export type { ParsedConfig } from "./config/config-map.ts";
export { CONFIG_MAP_LIMIT, patchConfigMapKey, diffForOverlay, patchSections } from "./config/config-write.ts";
export { findSizeProblem } from "./config/config-write.ts";
export {
  GLOBAL_SOURCES,
  NO_SETTINGS,
  MAINTENANCE,
  MODULE_SETTINGS,
  describeUnknownKeys,
  guardKeys,
  keepsRelease,
  suspendingKey,
  type DriftMode,
  type ModuleSettings,
} from "./config/config-map.ts";
export { configInputsFor, type ConfigInputs } from "./digests.ts";
export { mergeSectionLayers, withOverlay } from "./layers.ts";
export {
  registerSecrets,
  createSourceRedactor,
  buildHelmInput,
  digestUserValues,
  toChartValues,
  describeIncompleteValues,
  explainInvalidValues,
  describeValuesLeftToHooks,
  buildValuesFiles,
  getHelmSkipReason,
} from "./values-files.ts";
export type { MergedValues, SectionInput } from "./layers.ts";
export { PatchAuthors, describeViolations, explainOrigins, createOriginFinder } from "./origin.ts";
export { PatchError, applyJsonPatch, toStoredOperations, replayStoredPatches } from "./patch/apply-patch.ts";
export { type PatchOperation } from "./patch/apply-patch.ts";
export { compactOperations } from "./patch/compact.ts";
export { checkPatchedConfig, parsePatch, parsePatches, validatePatches } from "./patch/hook-patches.ts";
export type { ValidatedPatches } from "./patch/hook-patches.ts";
export { createDefaultsFiller } from "./schema/defaults.ts";
export { structuralSchema } from "./schema/schema-document.ts";
export { referencedFiles } from "./schema/references.ts";
export { compileSchemas, type Schemas } from "./schema/schemas.ts";
export { createValidator } from "./schema/validator.ts";
export { violationId, type Violation } from "./schema/violation.ts";
export type { SourceContent, SourceObject } from "./sources/source-layer.ts";
export {
  notAMapError,
  parseCommonValues,
  parseDocument,
  parseMap,
  parseModuleValues,
} from "./static-values.ts";
export type { CommonValues, ModuleValues } from "./static-values.ts";
export { ValuesStore, type ValuesView } from "./values-store.ts";
