/** Digests of texts and JSON values. */

import { createHash, hash } from "node:crypto";

import { ExactNumber, isContainer, member, type Json } from "./model/index.ts";

/** Version of the scheme of all digests written to the cluster. A new version writes new labels; it upgrades no release. */
export const DIGEST_SCHEME = "v1";

/**
 * The digest of `parts` in their order, for labels and for detection of changes: `v1-` and 40 hex digits of a SHA-256. The length of
 * each part counts too, so that `ab`, `c` and `a`, `bc` differ.
 */
export function digest(...parts: readonly (string | Uint8Array)[]): string {
  if (!parts.every(isShortText)) return digestAll(parts);
  // One call for all parts is faster than several for each: a list of hundreds of modules computes thousands of short digests.
  return formatDigest(hash("sha256", parts.map((part) => `${part.length}:${part}`).join(""), "hex"));
}

function isShortText(part: string | Uint8Array): part is string {
  return typeof part === "string" && part.length <= 1000;
}

const CONFIRMATION_TOKEN_LENGTH = 12;

/** A short digest of `parts`, which a user copies into an annotation to confirm exactly these. It becomes stale when one of them changes. */
export function confirmationToken(...parts: readonly string[]): string {
  const start = `${DIGEST_SCHEME}-`.length;
  return digest(...parts).slice(start, start + CONFIRMATION_TOKEN_LENGTH);
}

/** As `digest` for many parts, with only one in memory at a time. */
export function digestAll(parts: Iterable<string | Uint8Array>): string {
  const sha256 = createHash("sha256");
  for (const part of parts) sha256.update(String(part.length)).update(":").update(part);
  return formatDigest(sha256.digest("hex"));
}

function formatDigest(sha256: string): string {
  return `${DIGEST_SCHEME}-${sha256.slice(0, 40)}`;
}

/** The SHA-256 of the paths and bytes of files in hex, to detect a changed, added or renamed file. */
export function hashFiles(contents: Iterable<readonly [rel: string, bytes: Uint8Array]>): string {
  const hash = new FilesHash();
  for (const [rel, bytes] of contents) hash.add(rel, bytes);
  return hash.digest();
}

/** As `hashFiles`, for files that are read one after another. */
export class FilesHash {
  readonly #sha256 = createHash("sha256");

  add(rel: string, bytes: Uint8Array): void {
    this.#sha256.update(`${rel}\0${bytes.length}\0`).update(bytes);
  }

  digest(): string {
    return this.#sha256.digest("hex");
  }
}

/** The digest of a JSON value; independent of the order of object keys. */
export function digestJson(value: Json | undefined): string {
  return digest(canonicalJson(value));
}

/** Whether two JSON values are the same, whatever the order of keys. A member that is undefined counts as missing. */
export function sameJson(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (!isContainer(a) || !isContainer(b)) return isSameExactNumber(a, b);
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((item, index) => sameJson(item, b[index]));
  }
  return (
    Object.keys(a).every((key) => sameJson(a[key], member(b, key))) &&
    Object.keys(b).every((key) => b[key] === undefined || Object.hasOwn(a, key))
  );
}

function isSameExactNumber(a: Json | undefined, b: Json | undefined): boolean {
  return a instanceof ExactNumber && b instanceof ExactNumber && a.text === b.text;
}

/** JSON text with sorted object keys and no white space; `undefined` gives the empty string. */
export function canonicalJson(value: Json | undefined): string {
  if (value === undefined) return "";
  if (!isContainer(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const members: string[] = [];
  for (const key of Object.keys(value).sort()) {
    const child = value[key];
    if (child !== undefined) members.push(`${JSON.stringify(key)}:${canonicalJson(child)}`);
  }
  return `{${members.join(",")}}`;
}
