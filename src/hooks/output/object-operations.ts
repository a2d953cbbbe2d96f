/** Reads the object patch file that a hook leaves (docs/reference/hooks.md, "Objects"). */

import {
  attempt,
  findHalfPair,
  HALF_PAIR,
  mayHaveHalfPair,
  oneLine,
  parseExactJson,
  parseYaml,
} from "../../base/index.ts";
import { type Json, isJsonObject, type JsonObject, objectOf } from "../../base/model/index.ts";
import { throwOutputError, readOptionalText, parseJsonStream, type StreamItem } from "./output-files.ts";

/** The object of an operation. An empty apiVersion means the preferred one of the kind. */
interface ObjectTarget {
  readonly apiVersion: string | undefined;
  readonly kind: string;
  readonly namespace: string | undefined;
  readonly name: string;
}

interface Patch extends ObjectTarget {
  /** Without a leading slash. */
  readonly subresource: string | undefined;
  /** A missing object is no error. */
  readonly ignoreMissingObject: boolean;
}

type JsonPatchItem =
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: Json }
  | { readonly op: "remove"; readonly path: string }
  | { readonly op: "move" | "copy"; readonly path: string; readonly from: string };

/** One document of an object patch file, checked. */
export type ObjectOperation =
  | {
      readonly operation: "Create" | "CreateIfNotExists" | "CreateOrUpdate";
      readonly object: JsonObject;
      readonly target: ObjectTarget;
    }
  | {
      readonly operation: "Delete" | "DeleteInBackground" | "DeleteNonCascading";
      readonly target: ObjectTarget;
    }
  | { readonly operation: "MergePatch"; readonly target: Patch; readonly mergePatch: JsonObject }
  | { readonly operation: "JSONPatch"; readonly target: Patch; readonly jsonPatch: readonly JsonPatchItem[] }
  | { readonly operation: "JQPatch"; readonly target: Patch; readonly jqFilter: string };

/**
 * Reads an object patch file: JSON objects one after the other, or YAML documents. All are checked before any may be
 * applied. Throws OutputError with the first problem of each document.
 */
export function parseObjectOperations(text: string): ObjectOperation[] {
  const problems: string[] = [];
  const mustBeChecked = mayHaveHalfPair(text);
  const documents = parseDocuments(text);
  requireShortYaml(sum(documents.map(({ value }) => getYamlLength(value))));
  const operations = documents.flatMap((item) => {
    try {
      const operation = readOperation(item.value);
      if (mustBeChecked) requireCharacters(operation);
      return [operation];
    } catch (error) {
      problems.push(`${item.position}: ${oneLine(error)}`);
      return [];
    }
  });
  if (problems.length > 0) throwOutputError(problems.join("; "));
  return operations;
}

/** Most characters of YAML in one file: the YAML parser needs seconds for so many, and blocks the event loop. */
const MOST_YAML = 4 * 1024 * 1024;

/** Throws OutputError if so many characters of YAML are too many to parse. */
function requireShortYaml(length: number): void {
  if (length <= MOST_YAML) return;
  throwOutputError(`it has ${length} characters of YAML, more than ${MOST_YAML}: write JSON objects`);
}

/** How many characters of an operation are YAML in texts (`readValueOrYaml`). */
function getYamlLength({ object, mergePatch, jsonPatch }: JsonObject): number {
  return sum([object, mergePatch, jsonPatch].map((each) => (typeof each === "string" ? each.length : 0)));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

/** Throws OutputError for a text or key of an operation with half a surrogate pair: the API server would replace it silently. */
function requireCharacters(operation: ObjectOperation): void {
  const path = findHalfPair(operation);
  if (path !== undefined) throwOutputError(`${path.join(".")} ${HALF_PAIR}`);
}

/** Splits the text into documents: a stream of JSON objects, or YAML documents where the text is no JSON. */
function parseDocuments(text: string): StreamItem[] {
  try {
    return parseJsonStream(text, parseExactJson);
  } catch (error) {
    const beginsLikeJson = text.trimStart().startsWith("{") && !/^---/m.test(text);
    if (!beginsLikeJson) return parseYamlDocuments(text);
    const flowMap = text.length > MOST_YAML ? undefined : parseFlowMap(text);
    // The JSON error is more precise than YAML's.
    if (flowMap === undefined) throw error;
    return [{ value: flowMap, position: "document 1" }];
  }
}

/**
 * The one map in YAML's flow style, such as `{operation: Delete}`, that is the whole text; undefined for anything else, also
 * for a text with a warning, which is that of a repeated key or of more text after the map.
 */
function parseFlowMap(text: string): JsonObject | undefined {
  const parsed = attempt(() => parseYaml(text, ""));
  return parsed?.warnings.length === 0 && isJsonObject(parsed.value) ? parsed.value : undefined;
}

/** Parses YAML documents, which begin with `---` or end with `...`. Skips empty ones. */
function parseYamlDocuments(text: string): StreamItem[] {
  requireShortYaml(text.length);
  return text.split(/^(?:---(?=\s|$)|\.\.\.\s*$)/m).flatMap((document, index) => {
    // Text 0 stands before the first `---`: it is empty, or the first document.
    const position = `document ${Math.max(index, 1)}`;
    const value = parseYamlValue(document, position);
    if (value === null) return [];
    if (!isJsonObject(value)) throwOutputError(`${position}: neither a JSON nor a YAML object`);
    return [{ value, position }];
  });
}

function parseYamlValue(text: string, position: string): Json {
  try {
    return parseYaml(text, position).value;
  } catch (error) {
    throwOutputError(`${position}: neither JSON nor YAML: ${oneLine(error, 200)}`);
  }
}

const OPERATIONS =
  "Create, CreateIfNotExists, CreateOrUpdate, Delete, DeleteInBackground, DeleteNonCascading, MergePatch, JSONPatch, JQPatch";

/** Reads and checks one operation by its kind. Throws OutputError. */
function readOperation(value: JsonObject): ObjectOperation {
  const operation = readRequiredText(value, "operation");
  switch (operation) {
    case "Create":
    case "CreateIfNotExists":
    case "CreateOrUpdate":
      return { operation, ...readCreation(value) };
    case "Delete":
    case "DeleteInBackground":
    case "DeleteNonCascading":
      return { operation, target: readTarget(value) };
    case "MergePatch":
      return {
        operation,
        target: readPatchTarget(value),
        mergePatch: readValueOrYaml(value, "mergePatch", isJsonObject),
      };
    case "JSONPatch":
      return {
        operation,
        target: readPatchTarget(value),
        jsonPatch: readValueOrYaml(value, "jsonPatch", isArray).map(readPatchItem),
      };
    case "JQPatch":
      return { operation, target: readPatchTarget(value), jqFilter: readRequiredText(value, "jqFilter") };
    default:
      throwOutputError(`'operation' must be one of ${OPERATIONS}`);
  }
}

/**
 * Reads the object to create. Namespace and name are those of the object itself; a `namespace` beside the object is ignored.
 * Only `Create` may leave the name to `generateName`.
 */
function readCreation(value: JsonObject): { object: JsonObject; target: ObjectTarget } {
  const object = readValueOrYaml(value, "object", isJsonObject);
  const metadata = objectOf(object.metadata);
  const metadataPath = "object.metadata.";
  const generateName = readOptionalText(metadata, "generateName");
  const mayLackName = generateName !== undefined && value.operation === "Create";
  const name = mayLackName
    ? (readOptionalText(metadata, "name") ?? "")
    : readRequiredText(metadata, "name", metadataPath);
  const target = {
    apiVersion: readRequiredText(object, "apiVersion", "object."),
    kind: readRequiredText(object, "kind", "object."),
    namespace: readOptionalText(metadata, "namespace", metadataPath),
    name,
  };
  return { object, target };
}

/** The object that an operation deletes or patches. */
function readTarget(value: JsonObject): ObjectTarget {
  return {
    apiVersion: readOptionalText(value, "apiVersion"),
    kind: readRequiredText(value, "kind"),
    namespace: readOptionalText(value, "namespace"),
    name: readRequiredText(value, "name"),
  };
}

/** The object that an operation patches, with the options of patches. */
function readPatchTarget(value: JsonObject): Patch {
  const { ignoreMissingObject = false } = value;
  if (typeof ignoreMissingObject !== "boolean") throwOutputError("'ignoreMissingObject' must be a boolean");
  const subresource = readOptionalText(value, "subresource")?.replace(/^\/+/, "");
  return { ...readTarget(value), subresource: subresource || undefined, ignoreMissingObject };
}

const isArray = (value: unknown): value is Json[] => Array.isArray(value);

/** A field that is either a plain value or a string with YAML or JSON. Throws OutputError unless the value is of the right type. */
function readValueOrYaml<T extends Json>(
  object: JsonObject,
  key: string,
  isRightType: (value: unknown) => value is T,
): T {
  const field = object[key];
  if (field === undefined || field === null || field === "") throwOutputError(`'${key}' is required`);
  const value = typeof field === "string" ? parseYamlValue(field, `'${key}'`) : field;
  if (isRightType(value)) return value;
  const typeName = isRightType === isArray ? "an array" : "an object";
  throwOutputError(`'${key}' must be ${typeName}, or a text with one`);
}

/** The text at `key`. Throws OutputError if it is missing or empty; `path` precedes the key in the message, such as `object.`. */
function readRequiredText(value: JsonObject, key: string, path = ""): string {
  const text = readOptionalText(value, key, path);
  if (text === undefined) throwOutputError(`'${path}${key}' is required`);
  return text;
}

/** Checks one operation of a JSON patch (RFC 6902). Throws OutputError. */
function readPatchItem(item: Json, index: number): JsonPatchItem {
  const position = `jsonPatch[${index}]`;
  if (!isJsonObject(item)) throwOutputError(`${position} must be an object`);
  const { value } = item;
  const op = typeof item.op === "string" ? item.op : "";
  const path = readJsonPointer(item.path, `${position}.path`);
  switch (op) {
    case "add":
    case "replace":
    case "test":
      if (value === undefined) throwOutputError(`${position}.value is required for op ${op}`);
      return { op, path, value };
    case "remove":
      return { op, path };
    case "move":
    case "copy":
      return { op, path, from: readJsonPointer(item.from, `${position}.from`) };
    default:
      throwOutputError(`${position}.op should be one of [add remove replace move copy test]`);
  }
}

/** Checks a JSON pointer, which is empty or begins with a slash. */
function readJsonPointer(value: Json | undefined, position: string): string {
  if (value === undefined) throwOutputError(`${position} is required`);
  if (typeof value === "string" && (value === "" || value.startsWith("/"))) return value;
  throwOutputError(`${position} is no JSON pointer: it must begin with "/"`);
}
