/** How plain words and numbers of YAML are read: as helm and kubectl read them. */

/** What a scalar is. */
export type Scalar = null | boolean | number | string;

const TRUE = new Set(["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"]);
const FALSE = new Set(["n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"]);
const NULL = new Set(["", "~", "null", "Null", "NULL"]);
/** Plain scalars that are numbers in YAML and cannot be written in JSON. */
const NOT_IN_JSON = /^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;
const FLOAT = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/;
const INTEGER = /^[-+]?(?:0[xX][\da-fA-F]+|0[oO][0-7]+|0[bB][01]+|0[0-7]*|[1-9]\d*)$/;
/** An underscore that does not stand between two digits. */
const LOOSE_UNDERSCORE = /(?<!\d)_|_(?!\d)/;
const OLD_OCTAL = /^0[0-7]+$/;
const BASE64 = /^(?:[A-Za-z\d+/]{4})*(?:[A-Za-z\d+/]{2}==|[A-Za-z\d+/]{3}=)?$/;

/** Number of a plain scalar as Go reads it; undefined when it is none. */
function numberOf(source: string): number | undefined {
  if (!/^[-+.\d]/.test(source)) return undefined;
  if (source.startsWith(".") && LOOSE_UNDERSCORE.test(source)) return undefined;
  const text = source.replaceAll("_", "");
  const value = integerOf(text) ?? (FLOAT.test(text) ? Number(text) : Number.NaN);
  return Number.isFinite(value) ? value + 0 : undefined;
}

function integerOf(source: string): number | undefined {
  const text = source.replaceAll("_", "");
  if (!INTEGER.test(text)) return undefined;
  const negative = text.startsWith("-");
  const digits = text.replace(/^[-+]/, "");
  const value = OLD_OCTAL.test(digits) ? Number.parseInt(digits, 8) : Number(digits.toLowerCase());
  return negative && value !== 0 ? -value : value;
}

/** What a plain scalar without a tag means. Throws for numbers that JSON does not have. */
export function plainValue(source: string): Scalar {
  if (NULL.has(source)) return null;
  if (NOT_IN_JSON.test(source)) throw new Error("infinity and NaN cannot be written in JSON");
  return booleanOf(source) ?? numberOf(source) ?? source;
}

function booleanOf(source: string): boolean | undefined {
  if (TRUE.has(source)) return true;
  return FALSE.has(source) ? false : undefined;
}

function bytesOf(source: string): string | undefined {
  const text = source.replaceAll(/[\r\n]/g, "");
  return BASE64.test(text) ? Buffer.from(text, "base64").toString("utf8") : undefined;
}

type Reader = (source: string) => Scalar | undefined;

/** What the types of YAML make of a text; undefined where it is none of theirs. */
const BY_TAG: ReadonlyMap<string, Reader> = new Map<string, Reader>([
  ["null", (source) => (NULL.has(source) ? null : undefined)],
  ["bool", booleanOf],
  ["int", integerOf],
  ["float", numberOf],
  ["binary", bytesOf],
]);

/** What a scalar with a tag means: tags of applications (`!foo`) make it a text. Throws where it is not of that type. */
export function taggedValue(tag: string, source: string): Scalar {
  const [, type = ""] = /^tag:yaml\.org,2002:(.*)$/.exec(tag) ?? [];
  const read = BY_TAG.get(type);
  if (read === undefined) return source;
  const value = read(source);
  if (value === undefined) throw new Error(`a text that is no !!${type}`);
  return value;
}

/** Whether helm, kubectl or this program read a string as something else when it is written without quotes. */
export function needsQuotes(source: string): boolean {
  return source === "=" || source === "<<" || NOT_IN_JSON.test(source) || plainValue(source) !== source;
}
