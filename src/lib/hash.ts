/** Digests of texts and JSON values. */

import { createHash } from "node:crypto";

import type { Json } from "../model/index.ts";

/**
 * Version of the scheme of all digests written to the cluster. A new version writes new labels; it upgrades no
 * release.
 */
export const DIGEST_SCHEME = "v1";

/**
 * The digest of `parts` in their order, for labels and for detection of changes: `v1-` and 40 hex digits of a SHA-256. The length of
 * each part counts too, so that `ab`, `c` and `a`, `bc` differ.
 */
export function digest(...parts: readonly (string | Uint8Array)[]): string {
  return digestAll(parts);
}

const CONFIRMATION_TOKEN_LENGTH = 12;

/** A short digest of `parts`, which a user copies into an annotation to confirm exactly these. It becomes stale when one of them changes. */
export function confirmationToken(...parts: readonly string[]): string {
  const start = `${DIGEST_SCHEME}-`.length;
  return digest(...parts).slice(start, start + CONFIRMATION_TOKEN_LENGTH);
}

/** As `digest` for many parts, with only one in memory at a time. */
export function digestAll(parts: Iterable<string | Uint8Array>): string {
  const hash = createHash("sha256");
  for (const part of parts) {
    hash.update(String(part.length)).update(":").update(part);
  }
  return `${DIGEST_SCHEME}-${hash.digest("hex").slice(0, 40)}`;
}

/** The SHA-256 of the paths and bytes of files in hex, to detect a changed, added or renamed file. */
export function hashFiles(contents: Iterable<readonly [rel: string, bytes: Uint8Array]>): string {
  const hash = createHash("sha256");
  for (const [rel, bytes] of contents) hash.update(`${rel}\0${bytes.length}\0`).update(bytes);
  return hash.digest("hex");
}

/** The digest of a JSON value; independent of the order of object keys. */
export function digestJson(value: Json | undefined): string {
  return digest(canonicalJson(value));
}

/** Whether two JSON values are the same, whatever the order of keys. */
export function sameJson(a: Json | undefined, b: Json | undefined): boolean {
  return a === b || canonicalJson(a) === canonicalJson(b);
}

/** JSON text with sorted object keys and no white space; `undefined` gives the empty string. */
export function canonicalJson(value: Json | undefined): string {
  if (value === undefined) return "";
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const members: string[] = [];
  for (const key of Object.keys(value).sort()) {
    const member = value[key];
    if (member !== undefined) members.push(`${JSON.stringify(key)}:${canonicalJson(member)}`);
  }
  return `{${members.join(",")}}`;
}
