/**
 * Reads what a hook answers to a review of the API server (docs/reference/hooks.md, "Webhooks"). The case of keys does not
 * count, as in the Go operator: members are found by their lower-case names.
 */

import { splitJsonValues, parseExactJson } from "../../base/index.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/model/index.ts";
import { throwOutputError } from "./output-files.ts";

/** The answer to an admission request. */
export interface AdmissionAnswer {
  readonly allowed: boolean;
  readonly message: string | undefined;
  readonly warnings: readonly string[];
  /** A JSON Patch in base64. */
  readonly patch: string | undefined;
}

/** The answer to a conversion request. */
export interface ConversionAnswer {
  readonly convertedObjects: readonly JsonObject[];
  readonly failedMessage: string | undefined;
}

/** The answers of a run; undefined if the hook wrote nothing. */
export interface HookAnswers {
  readonly admission?: AdmissionAnswer | undefined;
  readonly conversion?: ConversionAnswer | undefined;
}

/** Reads and checks the answer to an admission request; undefined for an empty file. Throws OutputError. */
export function parseAdmission(text: string): AdmissionAnswer | undefined {
  const answer = parseMembers(text);
  if (answer === undefined) return undefined;
  const allowed = answer("allowed") ?? false;
  if (typeof allowed !== "boolean") throwOutputError("'allowed' must be true or false");
  const warnings = answer("warnings") ?? [];
  if (!Array.isArray(warnings)) throwOutputError("'warnings' must be a list of strings");
  return {
    allowed,
    message: readText(answer, "message"),
    warnings: warnings.map((each) =>
      typeof each === "string" ? each : throwOutputError("'warnings' must be a list of strings"),
    ),
    patch: readPatch(answer),
  };
}

/** Reads and checks the answer to a conversion request; undefined for an empty file. Throws OutputError. */
export function parseConversion(text: string): ConversionAnswer | undefined {
  const answer = parseMembers(text);
  if (answer === undefined) return undefined;
  const objects = answer("convertedobjects") ?? [];
  if (!Array.isArray(objects) || !objects.every((each) => isJsonObject(each)))
    throwOutputError("'convertedObjects' must be a list of objects");
  return { convertedObjects: objects, failedMessage: readText(answer, "failedmessage", "failedMessage") };
}

/** Reads a member by its name in lower case: hooks may write it in any case. */
type ReadMember = (key: string) => Json | undefined;

/**
 * Parses the first object of the file into a function that returns a member by its lower-case name; undefined for an empty file.
 * Further values in the file are ignored, as in the Go operator.
 */
function parseMembers(text: string): ReadMember | undefined {
  if (text === "") return undefined;
  const [firstValue] = splitJsonValues(text);
  const value = parseJsonWithoutQuoting(firstValue?.text ?? "");
  if (value !== null && !isJsonObject(value)) throwOutputError("it is not a JSON object");
  const members = new Map(Object.entries(value ?? {}).map(([key, each]) => [key.toLowerCase(), each]));
  return (key) => members.get(key) ?? undefined;
}

/** Parses JSON with an error that does not quote the text. */
function parseJsonWithoutQuoting(text: string): Json {
  try {
    return parseExactJson(text);
  } catch {
    // The parser's own message quotes the text, which may contain secrets.
    return throwOutputError("malformed JSON");
  }
}

/** The text of a member; undefined if it is missing or empty. `name` is its spelling in messages. */
function readText(answer: ReadMember, key: string, name = key): string | undefined {
  const text = answer(key);
  if (text === undefined || text === "") return undefined;
  return typeof text === "string" ? text : throwOutputError(`'${name}' must be a string`);
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The JSON Patch in base64, without line ends. The API server could not use any other, and `failurePolicy: Ignore` would hide that. */
function readPatch(answer: ReadMember): string | undefined {
  const patch = readText(answer, "patch")?.replaceAll(/[\r\n]/g, "");
  if (patch === undefined || patch === "") return undefined;
  if (!BASE64.test(patch)) throwOutputError("'patch' must be a JSON Patch in base64 with its padding");
  const operations = parseJsonWithoutQuoting(Buffer.from(patch, "base64").toString("utf8"));
  const isPatch = operations === null || (Array.isArray(operations) && operations.every(isPatchOperation));
  return isPatch ? patch : throwOutputError("'patch' must be a JSON Patch: a list of operations");
}

const OPERATIONS = new Set<unknown>(["add", "remove", "replace", "move", "copy", "test"]);

/** Whether a value is an operation of RFC 6902. As for the API server, a missing `value` is null. */
function isPatchOperation(value: Json): boolean {
  if (!isJsonObject(value)) return false;
  const { op, path, from } = value;
  const needsFrom = op === "move" || op === "copy";
  return OPERATIONS.has(op) && isPointer(path) && (!needsFrom || isPointer(from));
}

function isPointer(value: Json | undefined): boolean {
  return typeof value === "string" && (value === "" || value.startsWith("/"));
}
