/** What the name of a directory says: order and name of a module, and whether it can be one. */

import { camelCase } from "../model/index.ts";
import { SETTINGS } from "../values/index.ts";

/** Order and name of a module, taken from the name of its directory or symlink. */
export interface EntryName {
  readonly order: number;
  readonly name: string;
}

const PREFIXED = /^(\d+)-(.+)$/;
const RELEASE_NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const LONGEST_RELEASE_NAME = 53;

/** Suffixes of the keys that stand beside a module's section in the ConfigMap, in kebab case. */
const FLAG_SUFFIXES = ["Enabled", ...SETTINGS.map(({ ending }) => ending)].map(kebabCase);

/** Splits `010-ingress` into 10 and `ingress`; without a number the order is `unnumberedOrder`. */
export function splitEntryName(entry: string, unnumberedOrder: number): EntryName {
  const match = PREFIXED.exec(entry);
  if (match === null) return { order: unnumberedOrder, name: entry };
  return { order: Number(match[1]), name: match[2] ?? "" };
}

/**
 * Why `name` cannot be a module's name; undefined when it can. It becomes the name of a release and a key of
 * values.
 */
export function refuseName(name: string): string | undefined {
  if (name === "global") return `"global" is the section of values that all modules share`;
  if (!RELEASE_NAME.test(name)) {
    return `"${name}" is no release name: lower case letters, digits and dashes, beginning and ending with a letter or digit`;
  }
  if (name.length > LONGEST_RELEASE_NAME) {
    return `"${name}" is longer than helm's ${LONGEST_RELEASE_NAME} characters for a release name`;
  }
  const key = camelCase(name);
  if (kebabCase(key) === name) return undefined;
  return `"${name}" cannot be told from "${kebabCase(key)}" by its values key "${key}"`;
}

/** The module that `name` would be read as a flag of (`foo` for `foo-enabled`), if there is one. */
export function flagCollision(name: string, names: ReadonlySet<string>): string | undefined {
  for (const suffix of FLAG_SUFFIXES) {
    const other = name.slice(0, -suffix.length);
    if (name.endsWith(suffix) && names.has(other)) return other;
  }
  return undefined;
}

function kebabCase(camel: string): string {
  return camel.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
