/**
 * Hides secrets in values, and in texts that are YAML or JSON (docs/reference/values.md, "Secrets"). To *hide* a secret is to replace it
 * by what `options.hide` returns. The *class* of a key is what the key says about its value: see `classify.ts`. *Secret paths* are
 * JSON pointers from the schema to values that it marks as secret.
 */

import { attempt } from "../errors.ts";
import { MAX_DEPTH, toPointer } from "../json.ts";
import { isContainer, isNumber, type Json, type JsonObject } from "../model/index.ts";
import { parseYaml } from "../yaml/yaml.ts";
import { hideArguments } from "./keyed-secrets.ts";
import {
  classifyKey,
  isHarmless,
  looksLikeKeyName,
  looksLikeName,
  looksRandom,
  type KeyClass,
} from "./classify.ts";
import { placeholderOf, type Hide } from "./placeholder.ts";
import { hideInText } from "./redact-text.ts";
import { VALUE_KEYS, NAME_KEYS, REFERENCE_KEYS } from "./vocabulary.ts";

/** Longer strings are displayed as a hash, since they may be keys or certificates. */
const MAX_DISPLAYED_LENGTH = 256;

type Paths = readonly (readonly string[])[];

/** How to replace a secret, and which lists and maps to leave as they are because their secrets are known from an earlier call. */
export interface HideOptions {
  readonly hide: Hide;
  readonly skip?: (value: object) => boolean;
}

/** What is known about a value from the keys and paths above it. */
interface ValueContext {
  /** Classification by its key, or by the key above it if its own is neutral. */
  readonly keyClass: KeyClass;
  readonly key: string;
  /** Secret paths of the schema, relative to the value. An empty path means the value itself. */
  readonly paths: Paths;
  readonly depth: number;
}

/**
 * `value` without secrets: values under secret-looking keys, at `secretPaths` (JSON pointers relative to `value`, `*` for
 * any member or item, `**` for any number of levels), values that a sibling member names or flags as secret, values in the form of
 * a secret, and strings over 256 characters become placeholders. Booleans and null stay.
 */
export function redactValues(value: Json, secretPaths: ReadonlySet<string> = new Set()): Json {
  return hideInValues(value, secretPaths, { hide: placeholderOf });
}

/** As `redactValues`, but `options.hide` returns the replacement of each secret, for example to collect the secrets. */
export function hideInValues(value: Json, secretPaths: ReadonlySet<string>, options: HideOptions): Json {
  const paths = [...secretPaths].map((path) => path.split("/").slice(1));
  return hideValue(value, { keyClass: "plain", key: "", paths, depth: 0 }, options);
}

/** Hides secrets in a value by the class of its key, by the secret paths that lead to it and by its form. */
function hideValue(value: Json, context: ValueContext, options: HideOptions): Json {
  if (context.paths.some((path) => path.length === 0)) return hideEverything(value, options, context.depth);
  if (typeof value === "string") return hideString(value, context, options);
  if (isNumber(value) && context.keyClass === "secret") return options.hide(String(value));
  return isContainer(value) ? hideCollection(value, context, options) : value;
}

/** Hides secrets in a list or map. Hides one completely that is nested too deep to walk through. */
function hideCollection(value: Json[] | JsonObject, context: ValueContext, options: HideOptions): Json {
  if (context.depth > MAX_DEPTH) return options.hide("");
  // Only then the secrets in the value depend on nothing but the value, so that an earlier call found the same ones.
  const isIndependent = context.keyClass === "plain" && context.paths.length === 0;
  if (isIndependent && options.skip?.(value) === true) return value;
  return Array.isArray(value) ? hideItems(value, context, options) : hideMembers(value, context, options);
}

/** Hides each number and text below a secret path of the schema. Keeps the structure, booleans and null. */
function hideEverything(value: Json, options: HideOptions, depth: number): Json {
  if (value === null || typeof value === "boolean" || value === "") return value;
  if (!isContainer(value)) return options.hide(String(value));
  if (depth > MAX_DEPTH) return options.hide("");
  if (Array.isArray(value)) return value.map((item) => hideEverything(item, options, depth + 1));
  const hideMember = (member: Json | undefined): Json => hideEverything(member ?? null, options, depth + 1);
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, hideMember(member)]));
}

/** Hides a text as a whole if its key or its form is secret, else only the secrets in it. */
function hideString(text: string, { keyClass, key }: ValueContext, { hide }: HideOptions): string {
  if (isHarmless(text)) return text;
  if (text.length > MAX_DISPLAYED_LENGTH || isSecretByKey(keyClass, text)) return hide(text);
  const withoutValues = hideInDocument(text, hide);
  // Even if the text parses as YAML, it may be something else, such as a command line with `key: value` in it.
  const displayed = hideInText(withoutValues, hide, false);
  return displayed === text && isSecretByForm(text, keyClass, key) ? hide(text) : displayed;
}

const NO_PATHS: ReadonlySet<string> = new Set();

/** Whether a text is secret because of the class of its key, which may require that the text does not look like a name. */
function isSecretByKey(keyClass: KeyClass, text: string): boolean {
  if (keyClass === "secret") return true;
  if (keyClass === "keyName") return !looksLikeKeyName(text);
  return keyClass === "likely" && !looksLikeName(text);
}

/** Whether a text under a key that says nothing looks random, like a token, but is no public key, digest, file or address. */
function isSecretByForm(text: string, keyClass: KeyClass, key: string): boolean {
  return (
    keyClass === "plain" &&
    !/^public|known|authorized/i.test(key) &&
    !PUBLIC_FORM.test(text) &&
    looksRandom(text)
  );
}

/** Digests, public keys, addresses and texts with spaces. */
const PUBLIC_FORM =
  /sha(?:1|256|384|512)[:=-]|^(?:ssh-|ecdsa-|age1|arn:)|AAAA[BCE]3Nz|:\/\/|\s|@|\.(?:com|net|org|io|local|amazonaws)\b/;

/** Hides secrets in a list, and passwords in it if it may be an argument list of a command (one item begins with `-`). */
function hideItems(items: readonly Json[], context: ValueContext, options: HideOptions): Json[] {
  const displayed = items.map((item, index) => {
    const below = { paths: pathsBelow(context.paths, String(index)), depth: context.depth + 1 };
    return hideValue(item, { ...context, ...below }, options);
  });
  const texts = items.map((item) => (typeof item === "string" ? item : ""));
  if (!texts.some((text) => text.startsWith("-"))) return displayed;
  const hiddenArguments = hideArguments(texts, options.hide);
  return displayed.map((item, index) => {
    const isUnchanged = item === items[index];
    return isUnchanged ? (hiddenArguments.get(index) ?? item) : item;
  });
}

/** Hides secrets in a map: by keys, and by siblings (`{name: DB_PASSWORD, value: …}`). All data of a Secret is secret, no reference to one is. */
function hideMembers(value: JsonObject, context: ValueContext, options: HideOptions): JsonObject {
  const keys = Object.keys(value);
  const valueName = keys.some((key) => VALUE_KEYS.has(key)) ? findValueName(value) : undefined;
  const isReferenceMap = isReference(keys);
  const isSecret = value["kind"] === "Secret";
  const classify = (key: string): KeyClass => {
    if (key === "stringData" || (isSecret && key === "data")) return "secret";
    if (isReferenceMap) return "about";
    return classifyMember(key, context, VALUE_KEYS.has(key) ? valueName : undefined);
  };
  const entries = keys.map((key) => {
    const paths = pathsBelow(context.paths, key);
    const below = { keyClass: classify(key), key, paths, depth: context.depth + 1 };
    return [key, hideValue(value[key] ?? null, below, options)] as const;
  });
  return Object.fromEntries(entries);
}

/** Whether a map with these keys refers to a secret and contains none: `{name: s, key: password}`. */
function isReference(keys: readonly string[]): boolean {
  return keys.length > 1 && keys.includes("key") && keys.every((key) => REFERENCE_KEYS.has(key));
}

/** Finds the name that an object gives to its `value`: `DB_PASSWORD` in `{name: DB_PASSWORD, value: …}`; undefined if it gives none. */
function findValueName(value: JsonObject): string | undefined {
  for (const [key, name] of Object.entries(value))
    if (NAME_KEYS.has(key) && typeof name === "string") return name;
  return undefined;
}

/**
 * Classifies a member by the name that a sibling gives it (`valueName`), else by its key. If both say nothing (`plain`), the class of
 * the key above it counts if that says that values are secret: `{passwords: {admin: …}}`.
 */
function classifyMember(
  key: string,
  { keyClass, key: parent }: ValueContext,
  valueName: string | undefined,
): KeyClass {
  const memberClass = classifyKey(key, parent);
  const byName = valueName === undefined ? "plain" : classifyKey(valueName);
  if (byName !== "plain") return byName;
  if (memberClass !== "plain") return memberClass;
  return keyClass === "secret" || keyClass === "keyName" ? keyClass : "plain";
}

/** The secret paths that lead into the member `key`, relative to the member. `*` matches any key, `**` any number of levels. */
function pathsBelow(paths: Paths, key: string): Paths {
  if (paths.length === 0) return [];
  const name = toPointer([key]).slice(1);
  return paths.flatMap((path) => {
    const [first, ...afterFirst] = path;
    // `**` matches this level and further ones (the path stays), or none (the segments after it match this level).
    if (first === "**") return [path, ...pathsBelow([afterFirst], key)];
    return first === "*" || first === name ? [afterFirst] : [];
  });
}

/**
 * If a text is YAML or JSON, hides the secrets in its values. Keeps the rest of the text as it is. If a secret cannot be replaced
 * because it is very short, or not literally in the text (but escaped, say), hides the whole text.
 */
function hideInDocument(text: string, hide: Hide): string {
  const document = mayBeDocument(text) ? attempt(() => parseYaml(text, "").value) : undefined;
  if (!isContainer(document) || isProse(document)) return text;
  const secrets = new Set<string>();
  const collectSecret: Hide = (secret) => {
    secrets.add(secret);
    return secret;
  };
  hideInValues(document, NO_PATHS, { hide: collectSecret });
  if ([...secrets].some((secret) => secret.length < 4 || !text.includes(secret))) return hide(text);
  // Otherwise the rest of a secret that contains another one would stay.
  const longestFirst = [...secrets].toSorted((a, b) => b.length - a.length);
  return longestFirst.reduce((displayed, secret) => displayed.replaceAll(secret, () => hide(secret)), text);
}

/** Whether a text that parsed as YAML is prose: in `secrets "db" is forbidden: …` the "key" has several words. */
function isProse(document: object): boolean {
  return Object.keys(document).every((key) => /\s\S+\s/.test(key));
}

/** A fast test that avoids parsing most texts. */
function mayBeDocument(text: string): boolean {
  return /^[[{]|:\s|- /.test(text);
}
