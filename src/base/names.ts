/** Compares names: with patterns, and with misspelt names. */

/** Whether a pattern, in which `*` stands for any characters, describes all of a text. Takes linear time. */
export function matchesGlob(pattern: string, text: string): boolean {
  const [start = "", ...middleParts] = pattern.split("*");
  const end = middleParts.pop();
  if (end === undefined) return pattern === text;
  if (!text.startsWith(start) || !text.slice(start.length).endsWith(end)) return false;
  // The first place of each part leaves the most text for the parts after it.
  let index = start.length;
  for (const part of middleParts) {
    const found = text.indexOf(part, index);
    if (found < 0) return false;
    index = found + part.length;
  }
  return index <= text.length - end.length;
}

/** The items of a list with commas, without blanks around them; none of an undefined or empty text. */
export function splitList(text: string | undefined): string[] {
  return (text ?? "").split(",").flatMap((each) => each.trim() || []);
}

/** `name` with the nearest of `names` as a suggestion: `webb (did you mean web?)`. */
export function withSuggestion(name: string, names: readonly string[]): string {
  const meant = findNearestName(name, names);
  return meant === undefined ? name : `${name} (did you mean ${meant}?)`;
}

const MAX_DISTANCE = 2;

/** The candidate nearest to `word`, ignoring separators and case; at most two letters, and a third of the letters, may differ. */
export function findNearestName(word: string, candidates: readonly string[]): string | undefined {
  const plain = toComparable(word);
  let nearest: string | undefined;
  let leastDistance = Math.min(MAX_DISTANCE, Math.floor(plain.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(plain, toComparable(candidate), leastDistance);
    if (distance >= leastDistance) continue;
    leastDistance = distance;
    nearest = candidate;
  }
  return nearest;
}

/** A name without separators and in lower case: `my-App` and `myApp` are the same then. */
function toComparable(word: string): string {
  return word.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

/** The Levenshtein distance of two words. Gives up early and returns `limit` if the distance is not less. */
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
