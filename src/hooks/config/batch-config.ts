/**
 * Reads what a batch file, an executable with several hooks, prints for `hook config`: the configurations of its hooks
 * (docs/reference/hooks.md, "Batch hooks"). Each hook has an `item`: its number, or `ready` for the readiness probe.
 */

import { MISPLACED_BINDINGS, NO_BINDINGS, pruneToShape } from "../bindings/index.ts";
import { attempt, oneLine, parseJson } from "../../base/index.ts";
import { isJsonObject, objectOf, probeQueue } from "../../base/model/index.ts";
import type { BatchItem, HookConfig, Json, JsonObject } from "../../base/model/index.ts";
import { CONFIG_SHAPES, readHookConfig, type ConfigOwner, type ParsedHookConfig } from "./hook-config.ts";

/** One hook of a file. `name` and `item` are set where it is a batch file. */
export interface ConfiguredHook {
  readonly config: HookConfig;
  readonly name?: string;
  readonly item?: BatchItem;
}

/** The hooks of a file and their warnings. */
export interface ConfiguredHooks {
  readonly hooks: readonly ConfiguredHook[];
  readonly warnings: readonly string[];
}

const SHARED_GROUP = "main";

/**
 * Reads the output of `hook config`: an object of version v1, or a list of hooks as older files print it. Unknown keys
 * are ignored. All errors are reported together; each begins with the place in the output.
 */
export function parseBatchConfig(
  text: string,
  owner: BatchOwner,
): ConfiguredHooks | { readonly errors: readonly string[] } {
  const output = parseOutput(text);
  if (typeof output === "string") return { errors: [output] };
  const result: BatchResult = { owner, hooks: [], errors: [], warnings: [] };
  output.hooks.forEach((value, index) => addHook(result, value, index));
  if (output.readiness !== null) addReadinessProbe(result, output.readiness);
  const { hooks, warnings, errors } = result;
  return errors.length > 0 ? { errors } : { hooks, warnings };
}

/** The owner of a configuration; `module` is undefined for global hooks. */
export interface BatchOwner extends ConfigOwner {
  readonly module: string | undefined;
}

/** The parts of a result that the readers of hooks fill. */
interface BatchResult extends ConfiguredHooks {
  readonly owner: BatchOwner;
  readonly hooks: ConfiguredHook[];
  readonly errors: string[];
  readonly warnings: string[];
}

interface BatchOutput {
  readonly hooks: readonly Json[];
  readonly readiness: Json;
}

/** The parts of the output, or an error text. Log lines may precede the JSON. */
function parseOutput(text: string): BatchOutput | string {
  const value = findJson(text);
  if (value === undefined) return "the output is malformed JSON";
  if (Array.isArray(value)) return { hooks: value, readiness: null };
  return isJsonObject(value) ? readOutputObject(value) : "the output is neither an object nor a list";
}

/** Checks the outer fields of an object of version v1; returns its parts, or an error text. */
function readOutputObject({
  version = null,
  hooks = null,
  readiness = null,
}: JsonObject): BatchOutput | string {
  if (version !== "v1") return 'version must be "v1"';
  if (hooks !== null && !Array.isArray(hooks)) return "hooks must be a list";
  return { hooks: hooks ?? [], readiness };
}

/** Parses the text, or else its last line, as JSON: a file may log before it prints the configuration. */
function findJson(text: string): Json | undefined {
  const lastLine = text.trimEnd().split("\n").at(-1) ?? "";
  // A valid text may be `null`, so `??` cannot choose.
  const parsed = attempt(() => [parseJson(text)]) ?? attempt(() => [parseJson(lastLine)]);
  return parsed?.[0];
}

/** Reads the hook at this index of the list, and adds the hook or its errors to the result. */
function addHook(result: BatchResult, value: Json, index: number): void {
  const config = readItemConfig(result, value, `hooks[${index}]`);
  if (config !== undefined) result.hooks.push({ name: readName(value), item: index, config });
}

/** Reads the readiness probe of a module and adds it as a hook. Of its bindings, only the schedule is used. */
function addReadinessProbe(result: BatchResult, value: Json): void {
  const { module } = result.owner;
  if (module === undefined) return void result.warnings.push("readiness is ignored: it is for modules only");
  const config = readItemConfig(result, value, "readiness");
  if (config === undefined) return;
  if (config.bindings.schedule.length === 0) result.errors.push("readiness.schedule is required");
  result.hooks.push({ name: readName(value), item: "ready", config: makeProbeConfig(config, module) });
}

/** The configuration of a probe: its own queue, so that it blocks nothing, and no retries, since the next tick is soon. */
function makeProbeConfig({ version, bindings }: HookConfig, module: string): HookConfig {
  const probeOptions = { queue: probeQueue(module), allowFailure: true };
  const schedule = bindings.schedule.map((binding) => ({ ...binding, ...probeOptions }));
  return { version, bindings: { ...NO_BINDINGS, schedule }, settings: undefined };
}

/** The name in `metadata` of a hook; empty if there is none. */
function readName(value: Json): string {
  const { name } = objectOf(objectOf(value)["metadata"]);
  return typeof name === "string" ? oneLine(name, 100) : "";
}

/** A batch file may have hooks that never run. */
const HOOK_WITHOUT_BINDINGS: ParsedHookConfig = {
  config: { version: "v1", bindings: NO_BINDINGS, settings: undefined },
  warnings: [],
};

/**
 * The configuration of one hook; undefined if it has errors. Adds errors and warnings to the result, which begin with `place`,
 * the position in the output such as `hooks[2]`.
 */
function readItemConfig(result: BatchResult, value: Json, place: string): HookConfig | undefined {
  const { owner, errors, warnings } = result;
  if (!isJsonObject(value)) return void errors.push(`${place} must be an object`);
  const misplaced = MISPLACED_BINDINGS[owner.kind].filter((key) => (value[key] ?? null) !== null);
  for (const key of misplaced) warnings.push(`${place}.${key} is ignored: it is not for ${owner.kind} hooks`);
  const isMisplaced = (key: string): boolean => misplaced.some((each) => each === key);
  const allowed = Object.fromEntries(Object.entries(value).filter(([key]) => !isMisplaced(key)));
  const config = toVersion1(allowed);
  const hasOnlyVersion = Object.keys(config).length === 1;
  const parsed = hasOnlyVersion ? HOOK_WITHOUT_BINDINGS : readHookConfig(config, owner);
  if ("errors" in parsed) return void errors.push(...parsed.errors.map((error) => `${place}.${error}`));
  warnings.push(...parsed.warnings.map((warning) => `${place}: ${warning}`));
  return parsed.config;
}

/** Translates a configuration of a batch file to version 1 of hook configurations. Drops unknown keys. */
function toVersion1(value: JsonObject): JsonObject {
  const config = { ...(pruneToShape(value, CONFIG_SHAPES.v1) as JsonObject), configVersion: "v1" };
  const { settings, schedule, kubernetes }: JsonObject = config;
  // Batch files expect the snapshots of all bindings in each context, so all bindings of a hook are in one group.
  const addGroup = (binding: JsonObject): JsonObject => ({ ...binding, group: SHARED_GROUP });
  return {
    ...config,
    ...(settings !== undefined && { settings: toVersion1Settings(settings) }),
    ...(schedule !== undefined && { schedule: mapObjects(schedule, addGroup) }),
    ...(kubernetes !== undefined && { kubernetes: mapObjects(kubernetes, toVersion1Kubernetes) }),
  };
}

/** Changes each object of a list; leaves all other values, which the check of shapes reports later. */
function mapObjects(items: Json, change: (item: JsonObject) => JsonObject): Json {
  return Array.isArray(items) ? items.map((item) => (isJsonObject(item) ? change(item) : item)) : items;
}

/**
 * Translates a kubernetes binding. In batch files, `executeHookOnEvent` is a boolean: all events, or only snapshots; the hook gets
 * only filter results by default, and the snapshots of all its bindings, which are one group.
 */
function toVersion1Kubernetes({ executeHookOnEvent = true, ...binding }: JsonObject): JsonObject {
  return {
    keepFullObjectsInMemory: false,
    ...binding,
    group: SHARED_GROUP,
    ...(executeHookOnEvent === false && { executeHookOnEvent: [] }),
    // The check of shapes reports a value of another type.
    ...(typeof executeHookOnEvent !== "boolean" && { executeHookOnEvent }),
  };
}

/** Translates `settings`, whose durations are in nanoseconds in batch files. */
function toVersion1Settings(settings: Json): Json {
  if (!isJsonObject(settings)) return settings;
  const { executionMinInterval: interval, ...others } = settings;
  if (typeof interval !== "number") return settings;
  return { ...others, executionMinInterval: `${interval / 1e6}ms` };
}
