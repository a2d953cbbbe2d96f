/** Versions and version ranges in npm's syntax. */

import type { SemVer } from "semver";
import coerce from "semver/functions/coerce.js";
import parse from "semver/functions/parse.js";
import satisfies from "semver/functions/satisfies.js";
import validRange from "semver/ranges/valid.js";

/** Whether a text is a range of versions, e.g. `>=1.4 <2`. */
export function isRange(text: string): boolean {
  return validRange(text) !== null;
}

/** Whether a version lies in a range. `*` accepts any, also undefined. A pre-release matches only ranges that name one of its version. */
export function isInRange(version: string | undefined, range: string): boolean {
  if (range.trim() === "*") return true;
  const parsed = parseVersion(version);
  return parsed !== null && satisfies(parsed, range);
}

/** Whether a text is a semantic version of three numbers, e.g. `1.4.2-rc.1+build.5`; a `v` may precede it. */
export function isVersion(text: string): boolean {
  return parse(text) !== null;
}

/** The three numbers of a version without what follows them: `1.31.2` of `v1.31.2-gke.100`. */
export function releaseNumbersOf(version: string): string | undefined {
  return coerce(version)?.version;
}

/** Semver order: a pre-release is older than its release. False for invalid versions. */
export function isOlderVersion(version: string, other: string): boolean {
  const [left, right] = [parseVersion(version), parseVersion(other)];
  return left !== null && right !== null && left.compare(right) < 0;
}

/** Parses a version leniently: `v1.31` and `1.31.2-gke.100` are accepted. Null if there is no number. */
function parseVersion(version: string | undefined): SemVer | null {
  return parse(version, { loose: true }) ?? coerce(version);
}
