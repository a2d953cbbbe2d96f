/** Reads what a batch file prints for `hook config`: the configurations of its hooks (docs/reference/hooks.md, "Batch hooks"). */

import { MISPLACED_BINDINGS, NO_BINDINGS, pruneToShape } from "../../bindings/index.ts";
import { attempt, oneLine, parseJson } from "../../lib/index.ts";
import { isJsonObject, probeQueue } from "../../model/index.ts";
import type { BatchItem, HookConfig, Json, JsonObject } from "../../model/index.ts";
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

/** Batch files expect the snapshots of all bindings in each context, so all bindings of a hook are in one group. */
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
  const read: BatchReading = { owner, hooks: [], errors: [], warnings: [] };
  output.hooks.forEach((value, index) => addHook(read, value, index));
  if (output.readiness !== null) addReadinessProbe(read, output.readiness);
  const { hooks, warnings, errors } = read;
  return errors.length > 0 ? { errors } : { hooks, warnings };
}

/** The owner of a configuration; `module` is undefined for global hooks. */
export interface BatchOwner extends ConfigOwner {
  readonly module: string | undefined;
}

/** The parts of a result that the readers of hooks fill. */
interface BatchReading extends ConfiguredHooks {
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
function addHook(read: BatchReading, value: Json, index: number): void {
  const place = `hooks[${index}]`;
  const config = readItemConfig(read, value, place);
  if (config !== undefined) read.hooks.push({ name: readName(value), item: index, config });
}

/** Reads the readiness probe of a module and adds it as a hook. Of its bindings, only the schedule is used. */
function addReadinessProbe({ owner, ...read }: BatchReading, value: Json): void {
  const { module } = owner;
  if (module === undefined) return void read.warnings.push("readiness is ignored: it is for modules only");
  const config = readItemConfig({ owner, ...read }, value, "readiness");
  if (config === undefined) return;
  const { schedule } = config.bindings;
  if (schedule.length === 0) read.errors.push("readiness.schedule is required");
  read.hooks.push({ name: readName(value), item: "ready", config: makeProbeConfig(config, module) });
}

/** The configuration of a probe: its own queue, so that it blocks nothing, and no retries, since the next tick is soon. */
function makeProbeConfig({ version, bindings }: HookConfig, module: string): HookConfig {
  const own = { queue: probeQueue(module), allowFailure: true };
  const schedule = bindings.schedule.map((binding) => ({ ...binding, ...own }));
  return { version, bindings: { ...NO_BINDINGS, schedule }, settings: undefined };
}

/** The name in `metadata` of a hook; empty if there is none. */
function readName(value: Json): string {
  const metadata = isJsonObject(value) ? value["metadata"] : undefined;
  const name = isJsonObject(metadata) ? metadata["name"] : undefined;
  return typeof name === "string" ? oneLine(name, 100) : "";
}

/** A batch file may have hooks that never run. */
const HOOK_WITHOUT_BINDINGS: ParsedHookConfig = {
  config: { version: "v1", bindings: NO_BINDINGS, settings: undefined },
  warnings: [],
};

/** The configuration of one hook; undefined if it has errors, which are collected. */
function readItemConfig(read: BatchReading, value: Json, place: string): HookConfig | undefined {
  const { owner, errors, warnings } = read;
  if (!isJsonObject(value)) return void errors.push(`${place} must be an object`);
  const misplaced = MISPLACED_BINDINGS[owner.kind].filter((key) => (value[key] ?? null) !== null);
  for (const key of misplaced) warnings.push(`${place}.${key} is ignored: it is not for ${owner.kind} hooks`);
  const own = Object.fromEntries(
    Object.entries(value).filter(([key]) => !misplaced.some((no) => no === key)),
  );
  const raw = toVersion1(own);
  const parsed = Object.keys(raw).length > 1 ? readHookConfig(raw, owner) : HOOK_WITHOUT_BINDINGS;
  if ("errors" in parsed) return void errors.push(...parsed.errors.map((error) => `${place}.${error}`));
  warnings.push(...parsed.warnings.map((warning) => `${place}: ${warning}`));
  return parsed.config;
}

/** Translates a configuration of a batch file to version 1 of hook configurations. Drops unknown keys. */
function toVersion1(value: JsonObject): JsonObject {
  const known = pruneToShape(value, CONFIG_SHAPES.v1) as JsonObject;
  const { settings, schedule, kubernetes } = known;
  return {
    ...known,
    configVersion: "v1",
    ...(settings === undefined ? {} : { settings: toVersion1Settings(settings) }),
    ...(schedule === undefined
      ? {}
      : { schedule: mapObjects(schedule, (item) => ({ ...item, group: SHARED_GROUP })) }),
    ...(kubernetes === undefined ? {} : { kubernetes: mapObjects(kubernetes, toVersion1Kubernetes) }),
  };
}

/** Changes each object of a list; leaves all other values, which the check of shapes reports later. */
function mapObjects(items: Json, change: (item: JsonObject) => JsonObject): Json {
  return Array.isArray(items) ? items.map((item) => (isJsonObject(item) ? change(item) : item)) : items;
}

/** Translates a kubernetes binding. In batch files, `executeHookOnEvent` is a boolean: all events, or only snapshots. */
function toVersion1Kubernetes({ executeHookOnEvent: events = true, ...item }: JsonObject): JsonObject {
  return {
    keepFullObjectsInMemory: false,
    ...item,
    group: SHARED_GROUP,
    ...(events === true ? {} : { executeHookOnEvent: events === false ? [] : events }),
  };
}

/** Translates `settings`, whose durations are in nanoseconds in batch files. */
function toVersion1Settings(settings: Json): Json {
  if (!isJsonObject(settings)) return settings;
  const { executionMinInterval: interval, ...others } = settings;
  if (typeof interval !== "number") return settings;
  return { ...others, executionMinInterval: `${interval / 1e6}ms` };
}
