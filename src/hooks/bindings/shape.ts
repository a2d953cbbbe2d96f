/** A small schema language for hook configurations: a shape says of which type a value is, and which keys an object may and must have. */

import { isContainer, type Json, isJsonObject, type JsonObject } from "../../base/model/index.ts";

/** The schema of a value of a hook configuration. */
export type Shape =
  | { readonly kind: "string"; readonly oneOf?: readonly string[] }
  | { readonly kind: "boolean" }
  /**
   * Up to 2^53, beyond which the Go operators take no number for an integer. With `fraction`, all numbers are valid;
   * messages still say "integer", the word that hook authors search for.
   */
  | { readonly kind: "integer"; readonly fraction?: boolean }
  | { readonly kind: "array"; readonly of: Shape; readonly min?: number }
  | MapShape
  | ObjectShape;

/** Any keys; all values have the same shape. */
interface MapShape {
  readonly kind: "map";
  readonly of: Shape;
}

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

export const STRING_SHAPE = { kind: "string" } as const;
export const BOOLEAN_SHAPE = { kind: "boolean" } as const;
export const STRINGS_SHAPE = { kind: "array", of: STRING_SHAPE } as const;

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
  if (shape.kind === "array" && Array.isArray(value)) return itemMismatches(value, shape, path);
  if ((shape.kind === "object" || shape.kind === "map") && isJsonObject(value))
    return memberMismatches(value, shape, path);
  return scalarMismatches(value, shape, path);
}

/** By kind of shape: the JavaScript type of its values. Lists and objects are not checked by it. */
const SCALAR_TYPES: Readonly<Partial<Record<Shape["kind"], string>>> = {
  boolean: "boolean",
  integer: "number",
};

/** The violation of a shape, if any, by a value that is a scalar, or should be one, or has another type than the shape requires. */
function scalarMismatches(value: Json, shape: Shape, path: string): string[] {
  if (shape.kind === "string" && typeof value === "string") {
    const { oneOf = [value] } = shape;
    return oneOf.includes(value) ? [] : [`${path} should be one of [${oneOf.join(" ")}]`];
  }
  const hasType =
    shape.kind === "integer" && shape.fraction !== true
      ? Number.isSafeInteger(value)
      : typeof value === SCALAR_TYPES[shape.kind];
  return hasType ? [] : [describeWrongType(value, shape, path)];
}

/** The message for a value of a wrong type. YAML reads plain words such as `n` and `0644` as other types than texts. */
function describeWrongType(value: Json, { kind }: Shape, path: string): string {
  const requiredType = kind === "map" ? "object" : kind;
  const hint = kind === "string" && ["boolean", "number"].includes(typeof value) ? " (quote it)" : "";
  return `${describePath(path)} must be of type ${requiredType}: "${typeName(value)}"${hint}`;
}

/**
 * `value` without unknown keys, null, and empty lists and objects, which programs of the Go SDK print for unset fields. Values that
 * violate the shape stay unchanged, for `findMismatches` to report.
 */
export function pruneToShape(value: Json, shape: Shape): Json {
  if (shape.kind === "array" && Array.isArray(value))
    return value.map((item) => pruneToShape(item, shape.of));
  if ((shape.kind !== "object" && shape.kind !== "map") || !isJsonObject(value)) return value;
  const members = definedEntries(value).flatMap(([key, member]): [string, Json][] => {
    const field = memberShape(shape, key);
    const prunedMember = field === undefined ? null : pruneToShape(member, field);
    return isEmpty(prunedMember) ? [] : [[key, prunedMember]];
  });
  return Object.fromEntries(members);
}

/** Whether a value is null, or a list or object without members. */
function isEmpty(value: Json): boolean {
  return value === null || (isContainer(value) && Object.keys(value).length === 0);
}

/** The shape of the value of a key; undefined for an unknown key. */
function memberShape(shape: ObjectShape | MapShape, key: string): Shape | undefined {
  if (shape.kind === "map") return shape.of;
  return Object.hasOwn(shape.fields, key) ? shape.fields[key] : undefined;
}

function itemMismatches(list: readonly Json[], shape: Shape & { kind: "array" }, path: string): string[] {
  if (list.length < (shape.min ?? 0)) return [`${path} should have at least ${shape.min} items`];
  return list.flatMap((item, index) => findMismatches(item, shape.of, `${path}[${index}]`));
}

/** The violations of a shape by the members of an object: too few, a required one missing, an unknown one, or a wrong value. */
function memberMismatches(value: JsonObject, shape: ObjectShape | MapShape, path: string): string[] {
  const { min = 0, required = [], open = false }: Partial<ObjectShape> = shape.kind === "map" ? {} : shape;
  const entries = definedEntries(value);
  const missingKeys = required.filter((key) => value[key] === undefined);
  return [
    ...(entries.length < min ? [`${describePath(path)} should have at least ${min} properties`] : []),
    ...missingKeys.map((key) => `${joinPath(path, key)} is required`),
    ...entries.flatMap(([key, member]) => {
      const shapeOfKey = memberShape(shape, key);
      if (shapeOfKey !== undefined) return findMismatches(member, shapeOfKey, joinPath(path, key));
      return open ? [] : [`${joinPath(path, key)} is a forbidden property`];
    }),
  ];
}

function definedEntries(value: JsonObject): [string, Json][] {
  return Object.entries(value).filter((entry): entry is [string, Json] => entry[1] !== undefined);
}

function joinPath(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

function describePath(path: string): string {
  return path === "" ? "the configuration" : path;
}

/** The type of a value as messages name it, such as `integer`. */
function typeName(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (Number.isSafeInteger(value)) return "integer";
  return typeof value;
}
