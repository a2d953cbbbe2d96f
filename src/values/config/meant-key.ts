/** Guesses which key of the ConfigMap was meant. */

import { SETTINGS } from "./module-settings.ts";

/** What can follow a module's key. */
const ENDINGS = ["", "Enabled", ...SETTINGS.map(({ ending }) => ending)];

interface Keyed {
  readonly valuesKey: string;
}

/** Keys that match no module, each with the key that was probably meant: `webb (did you mean web?)`. */
export function describeUnknownKeys(keys: readonly string[], known: readonly Keyed[]): string[] {
  const candidates = known.flatMap(({ valuesKey }) => ENDINGS.map((ending) => `${valuesKey}${ending}`));
  return keys.map((key) => withMeant(key, ["global", ...candidates]));
}

/** `NAME`, with the one that was probably meant of those that there are: `webb (did you mean web?)`. */
export function withMeant(name: string, names: readonly string[]): string {
  const meant = nearest(name, names);
  return meant === undefined ? name : `${name} (did you mean ${meant}?)`;
}

/** The candidate that is written nearly like `word`: separators and case do not count, a third may differ. */
function nearest(word: string, candidates: readonly string[]): string | undefined {
  const plain = plainOf(word);
  let best: string | undefined;
  let least = Math.min(2, Math.floor(plain.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(plain, plainOf(candidate), least);
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

function plainOf(word: string): string {
  return word.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

/** How many letters have to be put in, taken out or changed; `limit` stands for that many and more. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(changed, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    if (Math.min(...next) >= limit) return limit;
    row = next;
  }
  return Math.min(row[b.length] ?? limit, limit);
}
