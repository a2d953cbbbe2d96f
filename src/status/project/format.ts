/** Texts and times as statuses and Events have them. */

import { oneLine, redactText } from "../../lib/index.ts";

/** Longest line in a status or Event. */
const LONGEST = 1000;

/** A text for a status or an Event: one line, secrets redacted, at most 1,000 characters. */
export function line(text: string): string {
  // Redaction first: a PEM block is only recognised while it still has its line ends.
  return oneLine(redactText(text), LONGEST);
}

/** RFC 3339 time in whole seconds, as metav1.Time has it. */
export function timestamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** The members of `record` that are not undefined. */
export function defined<T extends object>(record: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(record).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}
