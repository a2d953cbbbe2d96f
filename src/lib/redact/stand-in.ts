/** Makes the stand-ins of secrets, and digests that confirm no guess. */

import { type KeyObject, createHmac, createSecretKey, randomBytes } from "node:crypto";

/** Replaces a secret by what may be shown instead of it. */
export type Hide = (secret: string) => string;

/** Random until the key of the installation is known: stand-ins of different keys have nothing in common. */
let key: KeyObject = createSecretKey(randomBytes(32));

/** From now on stand-ins and digests are made with `installation`: the same in every process that has this key. */
export function useRedactionKey(installation: Uint8Array): void {
  key = createSecretKey(installation);
}

/** What stands in for a secret: the same text always gives the same, and without the key nobody can test a guess. */
export function standIn(text: string): string {
  return `${STAND_IN}${keyed("value", text).slice(0, 32)}>`;
}

export const STAND_IN = "<redacted:";

/** A digest for others to see: it moves when `digest` does, and confirms no guess of what that was made from. */
export function shownDigest(digest: string): string {
  return `v2-${keyed("digest", digest).slice(0, 40)}`;
}

function keyed(purpose: string, text: string): string {
  return createHmac("sha256", key).update(`${purpose}\0`).update(text).digest("hex");
}
