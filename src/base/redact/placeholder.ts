/** Creates placeholders of secrets, and keyed digests, which confirm no guess. */

import { type KeyObject, createHmac, createSecretKey, randomBytes } from "node:crypto";

/** Returns the placeholder for a secret. */
export type Hide = (secret: string) => string;

/** Random until the key of the installation is known: placeholders of different keys differ. */
let key: KeyObject = createSecretKey(randomBytes(32));

/** Sets the key of placeholders and digests, which are the same in every process with this key. */
export function useRedactionKey(installation: Uint8Array): void {
  key = createSecretKey(installation);
}

/** The bytes of the key in use. */
export function exportRedactionKey(): Uint8Array {
  return key.export();
}

/** The placeholder for a secret: equal for equal texts; testing a guess requires the key. */
export function placeholderOf(text: string): string {
  return `${PLACEHOLDER}${keyedDigest("value", text).slice(0, 32)}>`;
}

export const PLACEHOLDER = "<redacted:";

/** Converts a digest of values to one for display: it changes with `digest`, but readers without the key cannot test guesses of the values. */
export function displayDigest(digest: string): string {
  return `v2-${keyedDigest("digest", digest).slice(0, 40)}`;
}

/** An HMAC of `text` in hex, different for each purpose. Only who has the key can test a guess of the text. */
function keyedDigest(purpose: string, text: string): string {
  return createHmac("sha256", key).update(`${purpose}\0`).update(text).digest("hex");
}
