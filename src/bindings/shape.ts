/** A small schema language for hook configurations. */

import { type Json, isJsonObject, type JsonObject } from "../model/index.ts";

/** The schema of a value of a hook configuration. */
export type Shape =
  | { readonly kind: "string"; readonly oneOf?: readonly string[] }
  | { readonly kind: "boolean" }
  /** With `fraction`, decimals are valid too; messages still say "integer", the word that hook authors search for. */
  | { readonly kind: "integer"; readonly fraction?: boolean }
  | { readonly kind: "array"; readonly of: Shape; readonly min?: number }
  /** Any keys; all values have the same shape. */
  | { readonly kind: "map"; readonly of: Shape }
  | ObjectShape;

interface ObjectShape {
  readonly kind: "object";
  readonly fields: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  /** Unknown keys are tolerated. */
  readonly open?: boolean;
  readonly min?: number;
}

/** The shape of an object; a function, so that `ValueOf` sees the exact keys. */
export function objectShape<
  const Fields extends Record<string, Shape>,
  const Rest extends Omit<ObjectShape, "kind" | "fields"> = object,
>(fields: Fields, rest?: Rest): { readonly kind: "object"; readonly fields: Fields } & Rest {
  return { kind: "object", fields, ...(rest as Rest) };
}

export const STRING = { kind: "string" } as const;
export const BOOLEAN = { kind: "boolean" } as const;
export const STRINGS = { kind: "array", of: STRING } as const;

/** The type of the values that match a shape. */
export type ValueOf<S> = S extends { kind: "string"; oneOf: readonly (infer Word)[] }
  ? Word
  : S extends { kind: "array" | "map"; of: infer Item }
    ? { array: ValueOf<Item>[]; map: Record<string, ValueOf<Item>> }[S["kind"]]
    : S extends { kind: "object"; fields: infer Fields }
      ? ObjectValue<Fields, S extends { required: readonly (infer Key)[] } ? Key & keyof Fields : never>
      : S extends { kind: keyof ScalarTypes }
        ? ScalarTypes[S["kind"]]
        : never;

type ObjectValue<Fields, Required extends keyof Fields> = {
  [Key in Required]: ValueOf<Fields[Key]>;
} & { [Key in Exclude<keyof Fields, Required>]?: ValueOf<Fields[Key]> };

interface ScalarTypes {
  string: string;
  boolean: boolean;
  integer: number;
}

/**
 * All violations of the shape, in the messages that hook authors know from the Go operators: `schedule[0].crontab is
 * required`, `onStartup must be of type integer: "string"`, `x is a forbidden property`.
 */
export function findMismatches(value: Json, shape: Shape, path = ""): string[] {
  switch (shape.kind) {
    case "array":
      return arrayMismatches(value, shape, path);
    case "map":
      return mapMismatches(value, shape.of, path);
    case "object":
      return objectMismatches(value, shape, path);
    case "string":
      return stringMismatches(value, shape.oneOf, path);
    case "boolean":
      return typeof value === "boolean" ? [] : [describeWrongType(path, "boolean", value)];
    case "integer":
      return integerMismatches(value, shape, path);
  }
}

/**
 * `value` without unknown keys, null, and empty lists and objects, which batch files print for unset fields. Values that
 * violate the shape stay unchanged, for `findMismatches` to report.
 */
export function pruneToShape(value: Json, shape: Shape): Json {
  if (shape.kind === "array" && Array.isArray(value))
    return value.map((item) => pruneToShape(item, shape.of));
  if ((shape.kind !== "object" && shape.kind !== "map") || !isJsonObject(value)) return value;
  const members = definedEntries(value).flatMap(([key, member]): [string, Json][] => {
    const field = shape.kind === "map" ? shape.of : fieldShape(shape, key);
    const prunedMember = field === undefined ? null : pruneToShape(member, field);
    return isEmpty(prunedMember) ? [] : [[key, prunedMember]];
  });
  return Object.fromEntries(members);
}

/** Whether a value is null, or a list or object without members. */
function isEmpty(value: Json): boolean {
  return value === null || (typeof value === "object" && Object.keys(value).length === 0);
}

/** The shape of a known key; undefined for an unknown one. */
function fieldShape(shape: ObjectShape, key: string): Shape | undefined {
  return Object.hasOwn(shape.fields, key) ? shape.fields[key] : undefined;
}

function integerMismatches(value: Json, { fraction }: Shape & { kind: "integer" }, path: string): string[] {
  const fits = fraction === true ? typeof value === "number" : Number.isInteger(value);
  return fits ? [] : [describeWrongType(path, "integer", value)];
}

function mapMismatches(value: Json, of: Shape, path: string): string[] {
  if (!isJsonObject(value)) return [describeWrongType(path, "object", value)];
  return definedEntries(value).flatMap(([key, member]) => findMismatches(member, of, joinPath(path, key)));
}

function stringMismatches(value: Json, oneOf: readonly string[] | undefined, path: string): string[] {
  if (typeof value !== "string") return [describeWrongType(path, "string", value)];
  if (oneOf === undefined || oneOf.includes(value)) return [];
  return [`${path} should be one of [${oneOf.join(" ")}]`];
}

function arrayMismatches(value: Json, shape: Shape & { kind: "array" }, path: string): string[] {
  if (!Array.isArray(value)) return [describeWrongType(path, "array", value)];
  if (value.length < (shape.min ?? 0)) return [`${path} should have at least ${shape.min} items`];
  return value.flatMap((item, index) => findMismatches(item, shape.of, `${path}[${index}]`));
}

function objectMismatches(value: Json, shape: ObjectShape, path: string): string[] {
  if (!isJsonObject(value)) return [describeWrongType(path, "object", value)];
  const entries = definedEntries(value);
  const hasTooFew = entries.length < (shape.min ?? 0);
  return [
    ...(hasTooFew
      ? [`${path === "" ? "the configuration" : path} should have at least ${shape.min} properties`]
      : []),
    ...(shape.required ?? [])
      .filter((key) => value[key] === undefined)
      .map((key) => `${joinPath(path, key)} is required`),
    ...entries.flatMap(([key, member]) => memberMismatches(key, member, { shape, path })),
  ];
}

/** The violations of one member of an object; an unknown key is one unless the shape is open. */
function memberMismatches(
  key: string,
  member: Json,
  { shape, path }: { shape: ObjectShape; path: string },
): string[] {
  const field = fieldShape(shape, key);
  if (field !== undefined) return findMismatches(member, field, joinPath(path, key));
  return shape.open ? [] : [`${joinPath(path, key)} is a forbidden property`];
}

function definedEntries(value: JsonObject): [string, Json][] {
  return Object.entries(value).filter((entry): entry is [string, Json] => entry[1] !== undefined);
}

function joinPath(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

function describeWrongType(path: string, wanted: string, value: Json): string {
  return `${path === "" ? "the configuration" : path} must be of type ${wanted}: "${typeName(value)}"`;
}

function typeName(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number" && Number.isInteger(value)) return "integer";
  return typeof value;
}
