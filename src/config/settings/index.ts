export { FOREIGN_FLAGS, SETTINGS, type SettingRow } from "./setting-names.ts";
export { VERSION } from "./version.ts";
export { readEnvironment } from "./environment.ts";
export {
  type CommandLineSettings,
  type Environment,
  LEASE_GRACE_MS,
  type ParsedSettings,
  UsageError,
  buildChildEnvironment,
  collectOwnSecrets,
  environmentNames,
  parseConfigOverlay,
  readSettings,
  socketPaths,
  sourceKeysConfigMap,
} from "./config.ts";
export { type Settings } from "./settings.ts";
