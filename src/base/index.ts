export * from "./time/pace.ts";
export * from "./time/clock.ts";
export * from "./expressions/cel.ts";
export * from "./json.ts";
export * from "./files/json-meter.ts";
export * from "./limit.ts";
export { MissingItems } from "./time/missing-items.ts";
export { WorkSlices } from "./time/work-slices.ts";
export { callIfLate, Deadline, Debounce, Timers } from "./time/timers.ts";
export * from "./time/duration.ts";
export * from "./errors.ts";
export { listen } from "./listen.ts";
export * from "./failures.ts";
export { findNearestName, matchesGlob, splitList, withSuggestion } from "./names.ts";
export * from "./hash.ts";
export { collectGarbageWhenIdle } from "./idle-memory.ts";
export * from "./log.ts";
export * from "./memo.ts";
export * from "./parallel.ts";
export {
  decodeText,
  describeInvalidLine,
  EncodingError,
  exists,
  findInvalidLine,
  ByteCollector,
  readAtMost,
  readRegularFile,
  toOwnBytes,
  writeAll,
} from "./files/files.ts";
export {
  findPathProblemBesideUsers,
  isPrivateDirectory,
  findPrivateDirProblem,
  findPathProblem,
  isTrustedUser,
} from "./files/own-place.ts";
export { looksSecret } from "./redact/classify.ts";
export * from "./redact/known-secrets.ts";
export { displayDigest, exportRedactionKey, placeholderOf, useRedactionKey } from "./redact/placeholder.ts";
export { HIDDEN, hideQuotedValues } from "./redact/quoted.ts";
export { redactText } from "./redact/redact-text.ts";
export { SecretWords } from "./redact/secret-words.ts";
export { redactValues } from "./redact/values.ts";
export * from "./time/progress.ts";
export {
  ClientWorkBudgets,
  isTimeLimitError,
  SlowWorkBudget,
  runWithTimeLimit,
  threadCpuMs,
} from "./time/timed.ts";
export * from "./scope.ts";
export * from "./expressions/versions.ts";
export { YamlError } from "./yaml/cursor.ts";
export { parseYamlNumber } from "./yaml/construct.ts";
export * from "./yaml/yaml.ts";
export * from "./yaml/yaml-safe-json.ts";
