/** Requests and confirmations, which users write into annotations. */

import { CONFIRM_CRDS, CONFIRM_TAKEOVER } from "../helm/index.ts";
import type { ModuleRecord } from "./module-record.ts";

/** Tokens of annotations cannot contain it. */
const SEPARATOR = "\n";

/** The token of a request without an annotation, after `last`: the token of the last annotation, and a counter. */
export function nextToken(last: string | undefined): string {
  const [annotation = "", count = "0"] = (last ?? "").split(SEPARATOR);
  return `${annotation}${SEPARATOR}${Number(count) + 1}`;
}

/** The annotation's part of a token; undefined if it has none. */
export function annotationToken(token: string | undefined): string | undefined {
  return token?.split(SEPARATOR)[0] || undefined;
}

/** Annotation of the AddonModule that approves new content of a module from a registry: `VERSION@DIGEST`. */
export const APPROVE_UPDATE = "addon-operator.io/approve";

const CONFIRMED = ["confirmedCrds", "confirmedTakeover", "confirmedUpdate"] as const;
/** What users confirm. */
export type Confirmed = (typeof CONFIRMED)[number];

const ANNOTATIONS: Readonly<Record<Confirmed, string>> = {
  confirmedCrds: CONFIRM_CRDS,
  confirmedTakeover: CONFIRM_TAKEOVER,
  confirmedUpdate: APPROVE_UPDATE,
};

/** The record with the confirmations in the annotations. Ended ones, which are still to be removed, do not count. */
export function withConfirmations(
  record: ModuleRecord,
  annotations: Readonly<Record<string, string>>,
): ModuleRecord {
  const isStillAnnotated = ([name, token]: [string, string]): boolean => annotations[name] === token;
  const ended = Object.fromEntries(Object.entries(record.endedConfirmations).filter(isStillAnnotated));
  const tokenOf = (which: Confirmed): string | undefined =>
    ended[ANNOTATIONS[which]] === undefined ? annotations[ANNOTATIONS[which]] : undefined;
  const confirmed = Object.fromEntries(CONFIRMED.map((which) => [which, tokenOf(which)]));
  return { ...record, ...confirmed, endedConfirmations: ended };
}

/** Whether the record has these confirmations already. */
export function hasConfirmations(
  record: ModuleRecord,
  annotations: Readonly<Record<string, string>>,
): boolean {
  return CONFIRMED.every((which) => {
    const name = ANNOTATIONS[which];
    return annotations[name] === (record[which] ?? record.endedConfirmations[name]);
  });
}

/** Ends a confirmation that is used, or not needed any more. One that a user has given meanwhile stays. */
export function withoutConfirmation(
  record: ModuleRecord,
  which: Confirmed,
  token: string | undefined,
): ModuleRecord {
  if (token === undefined || record[which] !== token) return record;
  const endedConfirmations = { ...record.endedConfirmations, [ANNOTATIONS[which]]: token };
  return { ...record, [which]: undefined, endedConfirmations };
}
