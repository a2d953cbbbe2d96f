/** Hides secrets in values, and in texts that are YAML or JSON (docs/VALUES.md, "Secrets"). */

import { MAX_DEPTH, pointerOf } from "../json.ts";
import type { Json, JsonObject } from "../../model/index.ts";
import { parseYaml } from "../yaml/yaml.ts";
import { hideArguments } from "./given.ts";
import { judgeKey, isHarmless, looksLikeKeyName, looksLikeName, looksRandom, type Says } from "./judge.ts";
import { standIn, type Hide } from "./stand-in.ts";
import { hideInText } from "./redact-text.ts";
import { GIVING, NAMING, REFERRING } from "./vocabulary.ts";

/** Longer strings are shown as a hash: nobody reads them, and they may be keys or certificates. */
const LONGEST_SHOWN = 256;

type Paths = readonly (readonly string[])[];

/** How secrets are hidden, and what need not be looked at (again). */
export interface Manner {
  readonly hide: Hide;
  readonly skip?: (value: object) => boolean;
}

/** Where a value stands. */
interface ValueContext {
  /** What its key says, or the key above it where its own says nothing. */
  readonly says: Says;
  readonly key: string;
  /** Of the schema, relative to the value. */
  readonly paths: Paths;
  readonly depth: number;
}

/**
 * `value` without secrets: values under secret-looking keys, at `secretPaths` (JSON pointers relative to `value`, `*` for
 * any member or item, `**` for any number of levels), what is named or flagged as secret beside it, what looks like one by its form, and strings over
 * 256 characters become stand-ins. Booleans and null stay.
 */
export function redactValues(value: Json, secretPaths: ReadonlySet<string> = new Set()): Json {
  return hideInValues(value, secretPaths, { hide: standIn });
}

/** The same in another manner. */
export function hideInValues(value: Json, secretPaths: ReadonlySet<string>, manner: Manner): Json {
  const paths = [...secretPaths].map((path) => path.split("/").slice(1));
  return hideValue(value, { says: "plain", key: "", paths, depth: 0 }, manner);
}

function hideValue(value: Json, place: ValueContext, manner: Manner): Json {
  if (place.paths.some((path) => path.length === 0)) return hideAll(value, manner, place.depth);
  if (typeof value === "string") return hideString(value, place, manner);
  if (typeof value === "number" && place.says === "secret") return manner.hide(String(value));
  return value !== null && typeof value === "object" ? hideBelow(value, place, manner) : value;
}

function hideBelow(value: Json[] | JsonObject, place: ValueContext, manner: Manner): Json {
  if (place.depth > MAX_DEPTH) return manner.hide("");
  const isPlain = place.says === "plain" && place.paths.length === 0;
  if (isPlain && manner.skip?.(value) === true) return value;
  return Array.isArray(value) ? hideItems(value, place, manner) : hideMembers(value, place, manner);
}

/** At a path of the schema everything below is secret, but its shape is shown. */
function hideAll(value: Json, manner: Manner, depth: number): Json {
  if (value === null || typeof value === "boolean" || value === "") return value;
  if (typeof value !== "object") return manner.hide(String(value));
  if (depth > MAX_DEPTH) return manner.hide("");
  if (Array.isArray(value)) return value.map((item) => hideAll(item, manner, depth + 1));
  const entries = Object.entries(value).map(([key, member]) => [
    key,
    hideAll(member ?? null, manner, depth + 1),
  ]);
  return Object.fromEntries(entries) as JsonObject;
}

function hideString(text: string, { says, key }: ValueContext, { hide }: Manner): string {
  if (isHarmless(text)) return text;
  if (text.length > LONGEST_SHOWN || isSecretUnder(says, text)) return hide(text);
  const plain = hideInDocument(text, hide);
  // A command line with a header in it is a document too.
  const shown = hideInText(plain, hide, false);
  return shown === text && isSecretAnywhere(text, says, key) ? hide(text) : shown;
}

const NO_PATHS: ReadonlySet<string> = new Set();

function isSecretUnder(says: Says, text: string): boolean {
  if (says === "secret") return true;
  if (says === "keyName") return !looksLikeKeyName(text);
  return says === "likely" && !looksLikeName(text);
}

/** What says nothing of itself and still is in no order: a key or a token; but not a digest, a file or an address. */
function isSecretAnywhere(text: string, says: Says, key: string): boolean {
  return (
    says === "plain" && !/^public|known|authorized/i.test(key) && !PUBLIC.test(text) && looksRandom(text)
  );
}

const PUBLIC =
  /sha(?:1|256|384|512)[:=-]|^(?:ssh-|ecdsa-|age1|arn:)|AAAA[BCE]3Nz|:\/\/|\s|@|\.(?:com|net|org|io|local|amazonaws)\b/;

function hideItems(items: readonly Json[], place: ValueContext, manner: Manner): Json[] {
  const below = (at: number): ValueContext => ({
    ...place,
    paths: membersBelow(place.paths, String(at)),
    depth: place.depth + 1,
  });
  const shown = items.map((item, at) => hideValue(item, below(at), manner));
  const texts = items.map((item) => (typeof item === "string" ? item : ""));
  if (!texts.some((text) => text.startsWith("-"))) return shown;
  const given = hideArguments(texts, manner.hide);
  return shown.map((item, at) => (item === items[at] ? (given.get(at) ?? item) : item));
}

function hideMembers(value: JsonObject, place: ValueContext, manner: Manner): JsonObject {
  const keys = Object.keys(value);
  const named = keys.some((key) => GIVING.has(key)) ? nameIn(value) : undefined;
  const refers = isReference(keys);
  const isSecret = value["kind"] === "Secret";
  const entries = keys.map((key) => {
    const isData = key === "stringData" || (isSecret && key === "data");
    const own = isData
      ? "secret"
      : refers
        ? "about"
        : saysOf(key, place, GIVING.has(key) ? named : undefined);
    const below = { says: own, key, paths: membersBelow(place.paths, key), depth: place.depth + 1 };
    return [key, hideValue(value[key] ?? null, below, manner)] as const;
  });
  return Object.fromEntries(entries);
}

/** `{name: s, key: password}` says where a secret is. */
function isReference(keys: readonly string[]): boolean {
  return keys.length > 1 && keys.includes("key") && keys.every((key) => REFERRING.has(key));
}

/** What an object says of its `value`: `{name: DB_PASSWORD, value: …}`. */
function nameIn(value: JsonObject): string | undefined {
  for (const [key, name] of Object.entries(value))
    if (NAMING.has(key) && typeof name === "string") return name;
  return undefined;
}

/** What a member's key says; where it says nothing, what the key above it says of everything below. */
function saysOf(key: string, { says, key: parent }: ValueContext, named: string | undefined): Says {
  const own = judgeKey(key, parent);
  const byName = named === undefined ? "plain" : judgeKey(named);
  if (byName !== "plain") return byName;
  if (own !== "plain") return own;
  return says === "secret" || says === "keyName" ? says : "plain";
}

/** Paths of a member: those that begin with its key, with `*`, or with `**`, which goes on below it. */
function membersBelow(paths: Paths, key: string): Paths {
  if (paths.length === 0) return [];
  const name = pointerOf([key]).slice(1);
  return paths.flatMap((path) => {
    const [first, ...rest] = path;
    if (first === "**") return [path, ...membersBelow([rest], key)];
    return first === "*" || first === name ? [rest] : [];
  });
}

/**
 * A text that is YAML or JSON, without the secrets that its values show. The text stays as it was written: its secrets are
 * looked for in it, and if one is not found as it is, the text is hidden as a whole.
 */
function hideInDocument(text: string, hide: Hide): string {
  const document = mayBeDocument(text) ? read(text) : undefined;
  if (typeof document !== "object" || document === null || isProse(document)) return text;
  const secrets = new Set<string>();
  const found: Hide = (secret) => {
    secrets.add(secret);
    return secret;
  };
  hideInValues(document, NO_PATHS, { hide: found });
  if ([...secrets].some((secret) => secret.length < 4 || !text.includes(secret))) return hide(text);
  const longestFirst = [...secrets].toSorted((a, b) => b.length - a.length);
  return longestFirst.reduce((rest, secret) => rest.replaceAll(secret, () => hide(secret)), text);
}

/** `secrets "db" is forbidden: …` is no key with a value. */
function isProse(document: object): boolean {
  return Object.keys(document).every((key) => /\s\S+\s/.test(key));
}

function mayBeDocument(text: string): boolean {
  return /^[[{]|:\s|- /.test(text);
}

function read(text: string): Json | undefined {
  try {
    return parseYaml(text, "").value;
  } catch {
    return undefined;
  }
}
