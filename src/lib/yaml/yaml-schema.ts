/** How plain words and numbers of YAML are read: as helm and kubectl read them. */

import {
  DUMP_SCHEMA,
  NOT_RESOLVED,
  Schema,
  defineMappingTag,
  defineScalarTag,
  defineSequenceTag,
  mergeTag,
  strTag,
} from "js-yaml";

import { setMember } from "../../model/index.ts";

const TRUE = new Set(["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"]);
const FALSE = new Set(["n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"]);
const NULL = new Set(["", "~", "null", "Null", "NULL"]);
/** Plain scalars that are numbers in YAML and cannot be written in JSON. */
export const NOT_IN_JSON = /^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;
const FLOAT = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/;
const INTEGER = /^[-+]?(?:0[xX][\da-fA-F]+|0[oO][0-7]+|0[bB][01]+|0[0-7]*|[1-9]\d*)$/;
/** An underscore that does not stand between two digits. */
const LOOSE_UNDERSCORE = /(?<!\d)_|_(?!\d)/;
const OLD_OCTAL = /^0[0-7]+$/;

/** Number of a plain scalar as Go reads it; undefined when it is none. */
function numberOf(source: string): number | undefined {
  if (!/^[-+.\d]/.test(source)) return undefined;
  if (source.startsWith(".") && LOOSE_UNDERSCORE.test(source)) return undefined;
  const text = source.replaceAll("_", "");
  const value = INTEGER.test(text) ? integerOf(text) : FLOAT.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(value) ? value + 0 : undefined;
}

function integerOf(text: string): number {
  const negative = text.startsWith("-");
  const digits = text.replace(/^[-+]/, "");
  const value = OLD_OCTAL.test(digits) ? Number.parseInt(digits, 8) : Number(digits.toLowerCase());
  return negative && value !== 0 ? -value : value;
}

/** What a plain scalar is when it is not a string. */
function resolvePlain(source: string): null | boolean | number | undefined {
  if (TRUE.has(source)) return true;
  if (FALSE.has(source)) return false;
  if (NULL.has(source)) return null;
  if (NOT_IN_JSON.test(source)) throw new Error(`${source} has no place in JSON`);
  return numberOf(source);
}

function scalar<T>(
  name: string,
  resolve: (source: string) => T | undefined,
): ReturnType<typeof defineScalarTag<T>> {
  return defineScalarTag<T>(`tag:yaml.org,2002:${name}`, {
    resolve: (source) => resolve(source) ?? NOT_RESOLVED,
    identify: () => false,
  });
}

/** One resolver for all plain scalars, since Go's rules depend on their order. */
const plainTag = defineScalarTag<null | boolean | number>("tag:addon-operator.io,2026:plain", {
  implicit: true,
  resolve: (source) => {
    const value = resolvePlain(source);
    return value === undefined ? NOT_RESOLVED : value;
  },
  identify: () => false,
});

const nullTag = defineScalarTag<null>("tag:yaml.org,2002:null", {
  resolve: () => null,
  identify: () => false,
});

function booleanOf(source: string): boolean | undefined {
  if (TRUE.has(source)) return true;
  return FALSE.has(source) ? false : undefined;
}

function keyText(key: unknown): string | undefined {
  if (typeof key === "string") return key;
  return typeof key === "number" || typeof key === "boolean" ? String(key) : undefined;
}

/** Called with each key that is set a second time: the only way to learn of duplicates from the parser. */
export interface OverwriteCounter {
  count: number;
}

function mapTag(
  name: string,
  byPrefix: boolean,
  overwrites: OverwriteCounter,
): ReturnType<typeof defineMappingTag> {
  return defineMappingTag<Record<string, unknown>>(name, {
    matchByTagPrefix: byPrefix,
    create: () => ({}),
    addPair: (carrier, key, value) => {
      const text = keyText(key);
      if (text === undefined) return "a key must be a string, a number or a boolean";
      if (Object.hasOwn(carrier, text)) overwrites.count++;
      setMember(carrier, text, value);
      return "";
    },
    has: (carrier, key) => Object.hasOwn(carrier, keyText(key) ?? ""),
    keys: (carrier) => Object.keys(carrier),
    get: (carrier, key) => carrier[String(key)],
    identify: () => false,
  }) as ReturnType<typeof defineMappingTag>;
}

function listTag(name: string, byPrefix: boolean): ReturnType<typeof defineSequenceTag> {
  return defineSequenceTag<unknown[]>(name, {
    matchByTagPrefix: byPrefix,
    create: () => [],
    addItem: (carrier, item) => {
      carrier.push(item);
    },
    identify: () => false,
  }) as ReturnType<typeof defineSequenceTag>;
}

/** Tags of applications (`!foo`) and unknown YAML types are ignored. */
const FOREIGN = ["!", "tag:"];

/** Keys that were overwritten in the parse under way; parsing is synchronous, so one list is enough. */
export const overwrites: OverwriteCounter = { count: 0 };

/** The schema that helm and kubectl read YAML with. */
export const KUBERNETES_SCHEMA = new Schema([
  strTag,
  plainTag,
  mergeTag,
  nullTag,
  scalar("bool", booleanOf),
  scalar("int", numberOf),
  scalar("float", numberOf),
  scalar("binary", (source) => Buffer.from(source, "base64").toString("utf8")),
  mapTag("tag:yaml.org,2002:map", false, overwrites),
  listTag("tag:yaml.org,2002:seq", false),
  ...FOREIGN.flatMap((prefix) => [
    defineScalarTag<string>(prefix, {
      matchByTagPrefix: true,
      resolve: (source) => source,
      identify: () => false,
    }),
    mapTag(prefix, true, overwrites),
    listTag(prefix, true),
  ]),
]);

/** Quotes every string that helm, kubectl or this program would read as something else. */
export const WRITING_SCHEMA = DUMP_SCHEMA.withTags(
  defineScalarTag<string>("tag:addon-operator.io,2026:taken", {
    implicit: true,
    resolve: (source) => (isTaken(source) ? source : NOT_RESOLVED),
    identify: () => false,
  }),
);

function isTaken(source: string): boolean {
  return source === "=" || source === "<<" || NOT_IN_JSON.test(source) || resolvePlain(source) !== undefined;
}
