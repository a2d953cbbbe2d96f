/**
 * Reads `addon.yaml` (docs/reference/addon-yaml.md), or the deprecated `module.yaml`. `accountIsUnknown` marks a file whose
 * `serviceAccountName` cannot be read: the operator then acts for the module as the last known account, or not at all, rather
 * than with its own permissions.
 */

import { lstatSync, statSync } from "node:fs";
import { basename, join } from "node:path";

import { attempt, canonicalJson, isRange, parseDuration } from "../../base/index.ts";
import { collect, describeProblem, isJsonObject, objectOf, ProblemError } from "../../base/model/index.ts";
import type { AccountStatus, Json, JsonObject, AddonOptions, Problem } from "../../base/model/index.ts";
import { parseMap, createValidator, type Violation } from "../../values/index.ts";
import schema from "../addon.schema.json" with { type: "json" };
import { readText } from "../read/files.ts";

/** Path of a module's chart, and the form of its values. */
export interface ChartLocation {
  /** Below the module's directory. */
  readonly path: string;
  readonly values?: "root" | "section";
  readonly digest?: string;
  readonly source?: ChartSource;
}

export interface ChartSource {
  /** URL of a chart repository; `chart` is a name in it. Without one, it is an `oci://` reference. */
  readonly repo?: string;
  readonly chart: string;
  readonly version: string;
}

/** The settings of a module beside its files. */
export interface AddonFile extends AddonOptions, AccountStatus {
  readonly chart?: ChartLocation;
  /** The problem of an invalid file; its settings, except account and namespace, are then ignored. */
  readonly problem?: Problem;
  readonly warnings?: readonly string[];
  /** Deprecated content, with the remedy. */
  readonly deprecations?: readonly string[];
}

export const ADDON_FILE = "addon.yaml";
/**
 * Deckhouse's file, with keys such as `name` and `weight`, which is ignored. It is also the former name of `addon.yaml`: a
 * file with only keys of `addon.yaml` is still read in this version.
 */
export const MODULE_FILE = "module.yaml";
const MAX_BYTES = 1024 * 1024;
/** Keys that are newer than the name `addon.yaml`, so that a `module.yaml` with them is none of ours: each new key, too. `namespace` is also a key of Deckhouse. */
export const NEWER_KEYS: readonly string[] = ["valuesFrom", "namespace", "serviceAccountName"];
const SCHEMA = schema as JsonObject;
const validate = createValidator(SCHEMA);

/** Path of the file with the settings of the module in `dir`, for messages and edits; the file need not exist, and may be unreadable. */
export function addonFilePath(dir: string): string {
  const file = join(dir, ADDON_FILE);
  const usesDeprecatedFile = attempt(
    () =>
      lstatSync(file, { throwIfNoEntry: false }) === undefined && readDeprecatedSettings(dir) !== undefined,
  );
  return usesDeprecatedFile === true ? join(dir, MODULE_FILE) : file;
}

/** Reads the settings of the module in `dir`; empty if it has none. */
export function readAddonFile(dir: string): AddonFile {
  const file = join(dir, ADDON_FILE);
  const oldFile = join(dir, MODULE_FILE);
  const oldSettings = readDeprecatedSettings(dir);
  if (isFile(file)) return warnOfDifferences(readSettings(file), oldFile, oldSettings);
  // The author of a dangling link or a directory meant a file: to ignore it would hide the mistake.
  const problem = { file, message: "is no file, or a link to nothing", remedy: "remove or correct it" };
  if (lstatSync(file, { throwIfNoEntry: false }) !== undefined) return { problem, accountIsUnknown: true };
  if (oldSettings === undefined) return {};
  return { ...readSettings(oldFile), deprecations: [deprecationText(oldFile, file)] };
}

/** Returns what `addon.yaml` says, with a warning if a `module.yaml` beside it, which is ignored, says anything else. */
function warnOfDifferences(read: AddonFile, oldFile: string, oldSettings: JsonObject = {}): AddonFile {
  const settings = objectOf(read);
  const toText = (value: Json | undefined): string => canonicalJson(value ?? null);
  const differingKeys = Object.keys(oldSettings).filter(
    (key) => toText(settings[key]) !== toText(oldSettings[key]),
  );
  // Of a broken `addon.yaml`, the settings are unknown.
  if (read.problem !== undefined || differingKeys.length === 0) return read;
  const message = `is ignored beside ${ADDON_FILE}, which differs in ${differingKeys.join(", ")}`;
  const remedy = `move the settings that you need to ${ADDON_FILE} and remove ${oldFile}`;
  return { ...read, warnings: [describeProblem({ file: oldFile, message, remedy })] };
}

function deprecationText(oldFile: string, file: string): string {
  const message = `contains settings that the next version reads from ${ADDON_FILE} only`;
  const remedy = `git mv ${oldFile} ${file}, or mv ${oldFile} ${file}`;
  return describeProblem({ file: oldFile, message, remedy });
}

/**
 * The content of a `module.yaml` with only keys of `addon.yaml`, except those that `addon.yaml` got later; undefined for an
 * invalid file, and for Deckhouse's file of the same name, which has other keys.
 */
function readDeprecatedSettings(dir: string): JsonObject | undefined {
  const file = join(dir, MODULE_FILE);
  if (!isFile(file) || statSync(file).size > MAX_BYTES) return undefined;
  const value = collect([], () => parseMap(readText(file), file).value);
  const keys = Object.keys(value ?? {});
  const knownKeys = propertiesOf(SCHEMA);
  const isAddonKey = (key: string): boolean => Object.hasOwn(knownKeys, key) && !NEWER_KEYS.includes(key);
  return keys.length > 0 && keys.every(isAddonKey) ? value : undefined;
}

function isFile(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isFile() === true;
}

/** Reads and checks an `addon.yaml`. An invalid file yields its first problem, and of its settings only a valid account and namespace. */
function readSettings(file: string): AddonFile {
  if (statSync(file).size > MAX_BYTES)
    return { problem: { file, message: "is larger than 1 MiB" }, accountIsUnknown: true };
  try {
    const { value } = parseMap(readText(file), file);
    const problem = findAddonProblem(value, file);
    return problem === undefined ? value : { problem, ...readValidIdentity(value) };
  } catch (error) {
    const problem = error instanceof ProblemError ? error.problems[0] : undefined;
    if (problem === undefined) throw error;
    return { problem, accountIsUnknown: true };
  }
}

/** The first problem of the content of an `addon.yaml`. */
export function findAddonProblem(value: JsonObject, file: string): Problem | undefined {
  const [violation] = validate(value);
  return violation === undefined
    ? (findRangeProblem(file, value) ?? findTimeoutProblem(file, value))
    : toProblem(file, violation);
}

/**
 * The valid ones of account and namespace in an invalid file. Without them, the operator would repair and remove the
 * module's release with its own permissions instead of the account's.
 */
function readValidIdentity(
  value: JsonObject,
): Pick<AddonFile, "serviceAccountName" | "namespace" | "accountIsUnknown"> {
  const valid = (["serviceAccountName", "namespace"] as const).filter(
    (key) => value[key] !== undefined && validate({ [key]: value[key] }).length === 0,
  );
  const accountIsUnknown = value["serviceAccountName"] !== undefined && !valid.includes("serviceAccountName");
  return {
    ...Object.fromEntries(valid.map((key) => [key, value[key]])),
    ...(accountIsUnknown ? { accountIsUnknown } : {}),
  };
}

const MAX_TIMEOUT_MS = 24 * 3_600_000;

function findTimeoutProblem(file: string, { helm, health }: AddonOptions): Problem | undefined {
  const times = Object.entries({ "helm.timeout": helm?.timeout, "health.timeout": health?.timeout });
  const wrong = times.find(([, text]) => text !== undefined && !isTimeout(text));
  if (wrong === undefined) return undefined;
  const [key, text] = wrong;
  const message = `"${text}" is no duration of up to 24h`;
  return { file, key, message, remedy: "write one such as 90s or 5m" };
}

function isTimeout(text: string): boolean {
  const ms = parseDuration(text);
  return ms !== undefined && ms > 0 && ms <= MAX_TIMEOUT_MS;
}

function findRangeProblem(file: string, { requires }: AddonOptions): Problem | undefined {
  const { modules = {}, kubernetes = "*" } = requires ?? {};
  const ranges = Object.entries(modules).map(([name, range]) => [`modules.${name}`, range] as const);
  const wrong = [...ranges, ["kubernetes", kubernetes] as const].find(([, range]) => !isRange(range));
  if (wrong === undefined) return undefined;
  const [key, range] = wrong;
  const remedy = 'write one as npm has them, e.g. ">=1.4 <2", or "*" for any';
  return { file, key: `requires.${key}`, message: `"${range}" is no range of versions`, remedy };
}

/** A violation of the schema as a problem of the file; for an unknown key, lists the known ones. */
function toProblem(file: string, { path, rule, message }: Violation): Problem {
  const key = path.slice(1).replaceAll("/", ".");
  if (rule !== "additionalProperties")
    return { file, key, message, remedy: "docs/reference/addon-yaml.md lists its keys" };
  const known = listKnownKeys(path.split("/").slice(1, -1)).join(", ");
  const remedy = `remove or correct it; known here: ${known}`;
  return { file, key, message: `is no key of ${basename(file)}`, remedy };
}

/** The keys that the schema declares for the object at a path of `addon.yaml`, such as `["health", "checks", "0"]`. */
function listKnownKeys(path: readonly string[]): string[] {
  const schemaAtPath = path.reduce<Json | undefined>(
    // In a list, `name` is an index, and all items have one schema.
    (parent, name) => (isJsonObject(parent) ? (parent["items"] ?? propertiesOf(parent)[name]) : undefined),
    SCHEMA,
  );
  return Object.keys(propertiesOf(schemaAtPath));
}

function propertiesOf(schema: Json | undefined): JsonObject {
  return objectOf(objectOf(schema)["properties"]);
}

/** The longest name of a namespace that Kubernetes allows. */
const MAX_NAMESPACE_LENGTH = 63;

/** The namespace of a module's release: that in `addon.yaml`, else that of `--module-namespace-template`; undefined means the operator's namespace. */
export function chooseNamespace(
  template: string | undefined,
  module: string,
  { namespace }: Pick<AddonOptions, "namespace">,
): string | undefined {
  return namespace ?? template?.replaceAll("{name}", module);
}

/** The problem of a namespace that `--module-namespace-template` makes too long; none if it fits. The user can set a shorter one in `file`, the module's `addon.yaml`. */
export function checkNamespaceLength(namespace = "", file: string): Problem[] {
  if (namespace.length <= MAX_NAMESPACE_LENGTH) return [];
  const message = `would be ${namespace} by --module-namespace-template, which is longer than ${MAX_NAMESPACE_LENGTH} characters`;
  return [{ file, key: "namespace", message, remedy: "set a shorter one here, or shorten the template" }];
}
