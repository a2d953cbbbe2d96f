/** Reads the object patch file that a hook leaves (docs/reference/hooks.md, "Objects"). */

import { attempt, oneLine, parseYaml } from "../../lib/index.ts";
import { type Json, isJsonObject, type JsonObject } from "../../model/index.ts";
import { fail, optionalMember, parseJsonStream, type StreamItem } from "./output-files.ts";

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

/** One operation of a JSON Patch (RFC 6902). */
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
  const operations = documents(text).flatMap((item) => {
    try {
      return [objectOperation(item.value)];
    } catch (error) {
      problems.push(`${item.place}: ${oneLine(error)}`);
      return [];
    }
  });
  if (problems.length > 0) fail(problems.join("; "));
  return operations;
}

function documents(text: string): StreamItem[] {
  try {
    return parseJsonStream(text);
  } catch (error) {
    if (!text.trimStart().startsWith("{") || /^---/m.test(text)) return yamlDocuments(text);
    const flow = flowMap(text);
    // For text that begins like JSON, the JSON error is more precise than YAML's.
    if (flow === undefined) throw error;
    return [{ value: flow, place: "document 1" }];
  }
}

/** The one map in YAML's flow style that is the whole text; undefined for anything else. */
function flowMap(text: string): JsonObject | undefined {
  const parsed = attempt(() => parseYaml(text, ""));
  return parsed?.warnings.length === 0 && isJsonObject(parsed.value) ? parsed.value : undefined;
}

function yamlDocuments(text: string): StreamItem[] {
  return text.split(/^(?:---(?=\s|$)|\.\.\.\s*$)/m).flatMap((document, index) => {
    const place = `document ${Math.max(index, 1)}`;
    const value = yamlValue(document, place);
    if (value === null) return [];
    if (!isJsonObject(value)) fail(`${place}: neither a JSON nor a YAML object`);
    return [{ value, place }];
  });
}

function yamlValue(text: string, place: string): Json {
  try {
    return parseYaml(text, place).value;
  } catch (error) {
    fail(`${place}: neither JSON nor YAML: ${oneLine(error, 200)}`);
  }
}

const OPERATIONS =
  "Create, CreateIfNotExists, CreateOrUpdate, Delete, DeleteInBackground, DeleteNonCascading, MergePatch, JSONPatch, JQPatch";

function objectOperation(value: JsonObject): ObjectOperation {
  const operation = required(value, "operation");
  switch (operation) {
    case "Create":
    case "CreateIfNotExists":
    case "CreateOrUpdate":
      return { operation, ...created(value) };
    case "Delete":
    case "DeleteInBackground":
    case "DeleteNonCascading":
      return { operation, target: target(value) };
    case "MergePatch":
      return { operation, target: patchTarget(value), mergePatch: native(value, "mergePatch", isJsonObject) };
    case "JSONPatch": {
      const patched = patchTarget(value);
      return { operation, target: patched, jsonPatch: native(value, "jsonPatch", isArray).map(patchItem) };
    }
    case "JQPatch":
      return { operation, target: patchTarget(value), jqFilter: required(value, "jqFilter") };
    default:
      fail(`'operation' must be one of ${OPERATIONS}`);
  }
}

/** Takes namespace and name from the object itself and ignores `namespace` beside it. */
function created(value: JsonObject): { object: JsonObject; target: ObjectTarget } {
  const object = native(value, "object", isJsonObject);
  const metadata = isJsonObject(object.metadata) ? object.metadata : {};
  const generated = optionalMember(metadata, "generateName") !== undefined && value.operation === "Create";
  const where = "object.metadata.";
  const name = generated ? (optionalMember(metadata, "name") ?? "") : required(metadata, "name", where);
  const target = {
    apiVersion: required(object, "apiVersion", "object."),
    kind: required(object, "kind", "object."),
    namespace: optionalMember(metadata, "namespace", where),
    name,
  };
  return { object, target };
}

function target(value: JsonObject): ObjectTarget {
  return {
    apiVersion: optionalMember(value, "apiVersion"),
    kind: required(value, "kind"),
    namespace: optionalMember(value, "namespace"),
    name: required(value, "name"),
  };
}

function patchTarget(value: JsonObject): Patch {
  const { ignoreMissingObject = false } = value;
  if (typeof ignoreMissingObject !== "boolean") fail("'ignoreMissingObject' must be a boolean");
  const subresource = optionalMember(value, "subresource")?.replace(/^\/+/, "");
  return { ...target(value), subresource: subresource || undefined, ignoreMissingObject };
}

const isArray = (value: unknown): value is Json[] => Array.isArray(value);

/** A field that is either a plain value or a string with YAML or JSON. */
function native<T extends Json>(value: JsonObject, key: string, fits: (value: unknown) => value is T): T {
  const given = value[key];
  if (given === undefined || given === null || given === "") fail(`'${key}' is required`);
  const member = typeof given === "string" ? yamlValue(given, `'${key}'`) : given;
  if (fits(member)) return member;
  fail(`'${key}' must be ${fits === isArray ? "an array" : "an object"}, or a text with one`);
}

function required(value: JsonObject, key: string, path = ""): string {
  const text = optionalMember(value, key, path);
  if (text === undefined) fail(`'${path}${key}' is required`);
  return text;
}

function patchItem(item: Json, index: number): JsonPatchItem {
  const place = `jsonPatch[${index}]`;
  if (!isJsonObject(item)) fail(`${place} must be an object`);
  const { value } = item;
  const op = typeof item.op === "string" ? item.op : "";
  const path = pointer(item.path, `${place}.path`);
  switch (op) {
    case "add":
    case "replace":
    case "test":
      if (value === undefined) fail(`${place}.value is required for op ${op}`);
      return { op, path, value };
    case "remove":
      return { op, path };
    case "move":
    case "copy":
      return { op, path, from: pointer(item.from, `${place}.from`) };
    default:
      fail(`${place}.op should be one of [add remove replace move copy test]`);
  }
}

function pointer(value: Json | undefined, place: string): string {
  if (value === undefined) fail(`${place} is required`);
  if (typeof value === "string" && (value === "" || value.startsWith("/"))) return value;
  fail(`${place} is no JSON pointer: it must begin with "/"`);
}
