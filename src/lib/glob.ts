/** Patterns in which only `*` has a meaning. */

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
