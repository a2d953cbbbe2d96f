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

/** Parses a plain scalar as a number, as Go's YAML library does; undefined if it is none. */
function parseNumber(source: string): number | undefined {
  if (!/^[-+.\d]/.test(source)) return undefined;
  // Go removes all underscores of a number, except where it begins with a dot: there, it accepts them between digits only.
  if (source.startsWith(".") && LOOSE_UNDERSCORE.test(source)) return undefined;
  const text = source.replaceAll("_", "");
  const value = parseInteger(text) ?? (FLOAT.test(text) ? Number(text) : Number.NaN);
  // Adding 0 turns -0, which JSON does not have, into 0.
  return Number.isFinite(value) ? value + 0 : undefined;
}

/** Parses a decimal, hexadecimal, octal (`0o17`, `017`) or binary integer; undefined if the text is none. */
function parseInteger(source: string): number | undefined {
  const text = source.replaceAll("_", "");
  if (!INTEGER.test(text)) return undefined;
  const negative = text.startsWith("-");
  const digits = text.replace(/^[-+]/, "");
  const value = OLD_OCTAL.test(digits) ? Number.parseInt(digits, 8) : Number(digits.toLowerCase());
  return negative && value !== 0 ? -value : value;
}

/** The value of a plain scalar without a tag. Throws for numbers that JSON does not have. */
export function parsePlainScalar(source: string): Scalar {
  if (NULL.has(source)) return null;
  if (NOT_IN_JSON.test(source)) throw new Error("infinity and NaN cannot be written in JSON");
  return parseBoolean(source) ?? parseNumber(source) ?? source;
}

/** Parses a boolean of YAML 1.1, such as `yes` or `off`; undefined for other texts. */
function parseBoolean(source: string): boolean | undefined {
  if (TRUE.has(source)) return true;
  return FALSE.has(source) ? false : undefined;
}

/** Decodes the base64 text of a `!!binary` scalar to UTF-8; undefined if it is no base64. */
function decodeBase64(source: string): string | undefined {
  const text = source.replaceAll(/[\r\n]/g, "");
  return BASE64.test(text) ? Buffer.from(text, "base64").toString("utf8") : undefined;
}

type ScalarParser = (source: string) => Scalar | undefined;

/** Parsers of scalars by the type of their tag; each returns undefined for a text that is not of its type. */
const PARSERS_BY_TYPE: ReadonlyMap<string, ScalarParser> = new Map<string, ScalarParser>([
  ["null", (source) => (NULL.has(source) ? null : undefined)],
  ["bool", parseBoolean],
  ["int", parseInteger],
  ["float", parseNumber],
  ["binary", decodeBase64],
]);

/** The value of a scalar with a tag. Tags of applications (`!foo`) make it a text. Throws if the text is not of the tag's type. */
export function parseTaggedScalar(tag: string, source: string): Scalar {
  const [, type = ""] = /^tag:yaml\.org,2002:(.*)$/.exec(tag) ?? [];
  const read = PARSERS_BY_TYPE.get(type);
  if (read === undefined) return source;
  const value = read(source);
  if (value === undefined) throw new Error(`a text that is no !!${type}`);
  return value;
}

/** Whether helm, kubectl or this program read a string as something else when it is written without quotes. */
export function needsQuotes(source: string): boolean {
  return source === "=" || source === "<<" || NOT_IN_JSON.test(source) || parsePlainScalar(source) !== source;
}
