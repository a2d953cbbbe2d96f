/** Requests and confirmations, which users write into annotations. */

import { CONFIRM_CRDS, CONFIRM_TAKEOVER } from "../helm/index.ts";
import type { ModuleRecord } from "./module-record.ts";

/** Separates the parts of a request token; the value of an annotation cannot contain it. */
const SEPARATOR = "\n";

/**
 * Makes a token for a request by a command, which has none: a new token makes a run due. It consists of the last token that a
 * user wrote into the annotation, which the status reports as handled, and a counter.
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

/** The annotations with confirmations of users, by the field of the record that has the confirmed token. */
const ANNOTATIONS = {
  confirmedCrds: CONFIRM_CRDS,
  confirmedTakeover: CONFIRM_TAKEOVER,
  confirmedUpdate: APPROVE_UPDATE,
} as const;
export type Confirmed = keyof typeof ANNOTATIONS;
const CONFIRMED = Object.keys(ANNOTATIONS) as Confirmed[];

/**
 * Reads the users' confirmations from the annotations of the AddonModule into the record. A confirmation that was used does
 * not count again, although its annotation exists until the status mirror has removed it.
 */
export function readConfirmations(
  record: ModuleRecord,
  annotations: Readonly<Record<string, string>>,
): ModuleRecord {
  const isStillAnnotated = ([name, token]: [string, string]): boolean => annotations[name] === token;
  const ended = Object.fromEntries(Object.entries(record.endedConfirmations).filter(isStillAnnotated));
  const tokens = CONFIRMED.map((kind) => {
    const name = ANNOTATIONS[kind];
    return [kind, ended[name] === undefined ? annotations[name] : undefined];
  });
  return { ...record, ...Object.fromEntries(tokens), endedConfirmations: ended };
}

/** Whether the record has the confirmations of these annotations already: then each event of the AddonModule records nothing. */
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
