/** Versions and ranges of versions, as npm has them. */

import coerce from "semver/functions/coerce.js";
import parse from "semver/functions/parse.js";
import satisfies from "semver/functions/satisfies.js";
import validRange from "semver/ranges/valid.js";

/** Whether a text is a range of versions, e.g. `>=1.4 <2`. */
export function isRange(text: string): boolean {
  return validRange(text) !== null;
}

/**
 * Whether a version lies in a range. `*` takes any, also none; a pre-release counts for ranges that name one of the same
 * version only.
 */
export function inRange(version: string | undefined, range: string): boolean {
  if (range.trim() === "*") return true;
  const parsed = parse(version, { loose: true }) ?? coerce(version);
  return parsed !== null && satisfies(parsed, range);
}
