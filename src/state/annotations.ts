/** Requests and confirmations, which users write into annotations. */

import { CONFIRM_CRDS, CONFIRM_TAKEOVER } from "../helm/index.ts";
import type { ModuleRecord } from "./module-record.ts";

/** Separates the parts of a request token; the value of an annotation cannot contain it. */
const SEPARATOR = "\n";

/**
 * Makes a token for a request that comes without one (by a command), different from the `last` token: the last token that
 * a user wrote into the annotation, and a counter.
 */
export function makeRequestToken(last: string | undefined): string {
  const [annotation = "", count = "0"] = (last ?? "").split(SEPARATOR);
  return `${annotation}${SEPARATOR}${Number(count) + 1}`;
}

/** The part of a request token that a user wrote into the annotation; undefined if no annotation preceded the request. */
export function readAnnotationToken(token: string | undefined): string | undefined {
  return token?.split(SEPARATOR)[0] || undefined;
}

/** Annotation of the AddonModule that approves new content of a module from a registry: `VERSION@DIGEST`. */
export const APPROVE_UPDATE = "addon-operator.io/approve";

const CONFIRMED = ["confirmedCrds", "confirmedTakeover", "confirmedUpdate"] as const;
/** The fields of the record with the tokens that users have confirmed: a CRD change, a takeover of objects, an update. */
export type Confirmed = (typeof CONFIRMED)[number];

const ANNOTATIONS: Readonly<Record<Confirmed, string>> = {
  confirmedCrds: CONFIRM_CRDS,
  confirmedTakeover: CONFIRM_TAKEOVER,
  confirmedUpdate: APPROVE_UPDATE,
};

/**
 * Reads the users' confirmations from the annotations of the AddonModule into the record. A confirmation that has ended, but
 * whose annotation is not removed yet, does not count again.
 */
export function readConfirmations(
  record: ModuleRecord,
  annotations: Readonly<Record<string, string>>,
): ModuleRecord {
  const isStillAnnotated = ([name, token]: [string, string]): boolean => annotations[name] === token;
  const ended = Object.fromEntries(Object.entries(record.endedConfirmations).filter(isStillAnnotated));
  const readToken = (kind: Confirmed): string | undefined =>
    ended[ANNOTATIONS[kind]] === undefined ? annotations[ANNOTATIONS[kind]] : undefined;
  const confirmed = Object.fromEntries(CONFIRMED.map((kind) => [kind, readToken(kind)]));
  return { ...record, ...confirmed, endedConfirmations: ended };
}

/** Whether the record has the confirmations of these annotations already, so that nothing needs to be recorded. */
export function hasConfirmations(
  record: ModuleRecord,
  annotations: Readonly<Record<string, string>>,
): boolean {
  return CONFIRMED.every((kind) => {
    const name = ANNOTATIONS[kind];
    return annotations[name] === (record[kind] ?? record.endedConfirmations[name]);
  });
}

/**
 * Ends a confirmation that was used or is not needed any more: the status mirror then removes its annotation. A confirmation
 * with another `token`, which a user has given meanwhile, stays.
 */
export function endConfirmation(
  record: ModuleRecord,
  kind: Confirmed,
  token: string | undefined,
): ModuleRecord {
  if (token === undefined || record[kind] !== token) return record;
  const endedConfirmations = { ...record.endedConfirmations, [ANNOTATIONS[kind]]: token };
  return { ...record, [kind]: undefined, endedConfirmations };
}
