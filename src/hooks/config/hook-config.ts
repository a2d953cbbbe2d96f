/** Reads and checks what a hook prints for `--config`: a configuration of version v0 or v1, as shell-operator has them. */

import { MISPLACED_BINDINGS, STRING_SHAPE, listBindings, listBindingShapes } from "../bindings/index.ts";
import { findMismatches, objectShape, readBindings } from "../bindings/index.ts";
import type { Complain, ValueOf, HookKind } from "../bindings/index.ts";
import { MAIN_QUEUE, isJsonObject, mapExactNumbers } from "../../base/model/index.ts";
import type { HookConfig, HookSettings, Json, JsonObject } from "../../base/model/index.ts";
import { oneLine, parseDuration, parseYaml, YamlError } from "../../base/index.ts";

/** A hook configuration or all its errors. */
export type ParsedHookConfig =
  | { readonly config: HookConfig; readonly warnings: readonly string[] }
  | { readonly errors: readonly string[] };

/** docs/reference/hooks.md, "Rate limits". */
const SETTINGS_SHAPE = objectShape({
  executionMinInterval: STRING_SHAPE,
  executionMinPeriod: STRING_SHAPE,
  executionBurst: { kind: "integer" },
});
type RawSettings = ValueOf<typeof SETTINGS_SHAPE>;

/** Shapes of a configuration, by version (docs/reference/hooks.md, "The old configuration"). */
export const CONFIG_SHAPES = {
  v0: objectShape(listBindingShapes("v0"), { min: 1 }),
  v1: objectShape(
    { configVersion: STRING_SHAPE, settings: SETTINGS_SHAPE, ...listBindingShapes("v1") },
    { min: 2 },
  ),
};

/** Reads what a hook printed for `--config`: YAML or JSON, v0 or v1. Reports all errors together. `queue` is the default queue. */
export function parseHookConfig(text: string, kind: HookKind, queue = MAIN_QUEUE): ParsedHookConfig {
  if (text.trim() === "")
    return { errors: ["the configuration is empty: the hook printed nothing for --config"] };
  try {
    const { value, warnings } = parseYaml(text, "--config");
    return readHookConfig(mapExactNumbers(value, Number), { kind, queue }, warnings);
  } catch (error) {
    return { errors: [`the configuration is neither YAML nor JSON: ${describeSyntaxError(error, text)}`] };
  }
}

/** Longest part of a line in an error. */
const MAX_QUOTE = 80;

/** Describes where the text is no YAML, with the line: nobody has the output of a hook in a file. */
function describeSyntaxError(error: unknown, text: string): string {
  if (!(error instanceof YamlError)) return oneLine(error);
  const { line, column, message } = error;
  const quote = oneLine(text.split("\n")[line - 1] ?? "", MAX_QUOTE);
  return `line ${line}, column ${column}${quote === "" ? "" : ` ("${quote}")`}: ${message}`;
}

const ANY_CONFIG_KEY = new RegExp(
  `(?:^|[\\s{,"'])(?:${Object.keys({ ...CONFIG_SHAPES.v0.fields, ...CONFIG_SHAPES.v1.fields }).join("|")})["']?\\s*:`,
);

/** Whether a text is meant as a hook configuration, valid or not, because it has one of its keys. Other texts may be of a batch file. */
export function looksLikeConfig(text: string): boolean {
  return ANY_CONFIG_KEY.test(text);
}

/** The owner of a configuration. */
export interface ConfigOwner {
  readonly kind: HookKind;
  /** The default queue of bindings. */
  readonly queue: string;
}

/** Checks a configuration and normalises it; `yamlWarnings` are added to its own. */
export function readHookConfig(
  value: Json,
  { kind, queue }: ConfigOwner,
  yamlWarnings: readonly string[] = [],
): ParsedHookConfig {
  if (!isJsonObject(value)) return { errors: ["the configuration is no object with bindings"] };
  const version = readVersion(value);
  if (typeof version !== "string") return { errors: [version.error] };
  const misplaced = describeMisplaced(value, kind);
  const allowed = Object.fromEntries(Object.entries(value).filter(([key]) => !misplaced.has(key)));
  // A text begins with the key. A misplaced key, which has an error already, may be a mismatch, too.
  const mismatches = findMismatches(value, CONFIG_SHAPES[version]).filter(
    (text) => !misplaced.has(text.split(" ")[0] ?? ""),
  );
  const errors = [...misplaced.values(), ...mismatches.map((text) => addVersionHint(text, version))];
  if (errors.length > 0) return { errors };
  return readBindingsAndSettings(allowed, yamlWarnings, { version, queue });
}

/** The version of a configuration: without `configVersion` it is v0. Returns an error text for an unknown version. */
function readVersion(value: JsonObject): "v0" | "v1" | { error: string } {
  const { configVersion } = value;
  if (configVersion === undefined) return "v0";
  if (configVersion === null) return { error: "missing 'configVersion' value" };
  if (typeof configVersion !== "string") return { error: "string value is expected for key 'configVersion'" };
  return configVersion === "v1" ? "v1" : { error: `'configVersion' value '${configVersion}' is unsupported` };
}

/** Messages for bindings that only the other kind of hooks may have, by key. */
function describeMisplaced(value: JsonObject, kind: HookKind): Map<string, string> {
  const otherKind = kind === "global" ? "module" : "global";
  const misplaced = MISPLACED_BINDINGS[kind].filter((key) => Object.hasOwn(value, key));
  return new Map(
    misplaced.map((key) => [key, `${key} is not allowed in a ${kind} hook, only in ${otherKind} hooks`]),
  );
}

/** Adds to the message of a forbidden key that the key exists in the other version. */
function addVersionHint(text: string, version: "v0" | "v1"): string {
  const [key = ""] = text.split(" ");
  if (text !== `${key} is a forbidden property`) return text;
  if (version === "v0" && Object.hasOwn(CONFIG_SHAPES.v1.fields, key))
    return `${text} without configVersion: v1`;
  const isKeyOfV0 = version === "v1" && key === "onKubernetesEvent";
  return isKeyOfV0 ? `${text} with configVersion: v1, use kubernetes` : text;
}

/** Reads bindings and settings of a configuration whose shape is valid, and collects errors of single values. */
function readBindingsAndSettings(
  value: JsonObject,
  yamlWarnings: readonly string[],
  { version, queue }: Pick<HookConfig, "version"> & Pick<ConfigOwner, "queue">,
): ParsedHookConfig {
  const errors: string[] = [];
  const warnings = [...yamlWarnings];
  const complain: Complain = (problem) => errors.push(problem);
  const warn: Complain = (warning) => warnings.push(warning);
  const bindings = readBindings(value, { complain, warn, queue });
  const config = { version, bindings, settings: readSettings(value["settings"], complain) };
  if (version === "v1") warnAboutEqualNames(config, warn);
  return errors.length > 0 ? { errors } : { config, warnings };
}

/** Warns of bindings of one kind with equal names: their contexts look the same to the hook. */
function warnAboutEqualNames(config: HookConfig, warn: Complain): void {
  const seen = new Set<string>();
  for (const { type, name } of listBindings(config)) {
    const key = `${type} bindings named '${name}'`;
    if (seen.has(key)) warn(`there are several ${key}: the hook cannot distinguish them; give each a name`);
    seen.add(key);
  }
}

/** Reads `settings`, which limit the rate of the hook's runs (a token bucket). Each field is optional. */
function readSettings(settings: Json | undefined, complain: Complain): HookSettings | undefined {
  if (settings === undefined) return undefined;
  // The shape was checked before.
  const raw = settings as RawSettings;
  return { minIntervalMs: readMinIntervalMs(raw, complain), burst: readBurst(raw, complain) };
}

/** The least time between two runs; 0 without a limit. The key has two spellings. */
function readMinIntervalMs(
  { executionMinInterval, executionMinPeriod }: RawSettings,
  complain: Complain,
): number {
  if (executionMinInterval !== undefined && executionMinPeriod !== undefined) {
    complain("settings.executionMinPeriod is another word for executionMinInterval: give only one");
  }
  const text = executionMinInterval ?? executionMinPeriod ?? "0";
  const milliseconds = parseDuration(text) ?? -1;
  if (milliseconds < 0) {
    const spelling = executionMinInterval === undefined ? "executionMinPeriod" : "executionMinInterval";
    complain(`settings.${spelling} is invalid: "${text}" is no duration like 3s, 500ms, 1m30s`);
  }
  return milliseconds;
}

/** How many runs may follow each other without the interval; 0 counts as 1. */
function readBurst({ executionBurst = 1 }: RawSettings, complain: Complain): number {
  if (executionBurst < 0 || !Number.isInteger(executionBurst)) {
    complain(`settings.executionBurst is invalid: ${executionBurst} is no whole number from 0 on`);
  }
  return Math.max(executionBurst, 1);
}
