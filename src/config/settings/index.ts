export { buildChildEnvironment, collectOwnSecrets } from "./child-environment.ts";
export {
  type CommandLineSettings,
  LEASE_GRACE_MS,
  type ParsedSettings,
  UsageError,
  parseConfigOverlay,
  readSettings,
  socketPaths,
  sourceKeysConfigMap,
} from "./config.ts";
export { type Environment, readEnvironment } from "./environment.ts";
export { environmentNames, FOREIGN_FLAGS, SETTINGS, type SettingRow } from "./setting-names.ts";
export type { Settings } from "./settings.ts";
export { VERSION } from "./version.ts";
