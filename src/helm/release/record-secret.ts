/** The Secret of one revision of a release. */

import { SECRETS } from "../../kube/index.ts";
import { isJsonObject, type JsonObject } from "../../model/index.ts";
import { BrokenRecordError } from "../binary/helm-errors.ts";
import type { ReleaseMeta } from "./revisions.ts";

export interface SecretTarget {
  readonly namespace: string;
  readonly name: string;
}

/** The target of requests for the Secret of a revision. */
export function secretRef({ namespace, secret }: ReleaseMeta) {
  return { resource: SECRETS, namespace, name: secret };
}

/** The key of a Secret in an ObjectStore. */
export function secretKey({ namespace, name }: SecretTarget): string {
  return `${namespace}/${name}`;
}

/** Reads the encoded record from the Secret of a revision. Throws BrokenRecordError if there is none. */
export function readEncodedRecord(meta: ReleaseMeta, secret: JsonObject): string {
  const data = isJsonObject(secret["data"]) ? secret["data"]["release"] : undefined;
  if (typeof data !== "string") throw new BrokenRecordError(meta.secret, "it contains no release");
  return data;
}

/**
 * Waits for the decoding of a record. Converts the SyntaxError of an invalid record into a BrokenRecordError, which names the
 * Secret for the user.
 */
export async function withSecretInError<T>(meta: ReleaseMeta, decoding: Promise<T>): Promise<T> {
  try {
    return await decoding;
  } catch (error) {
    throw error instanceof SyntaxError ? new BrokenRecordError(meta.secret, error.message) : error;
  }
}
