/** Patterns in which only `*` has a meaning. */

/** Whether a pattern, in which `*` stands for any characters, describes all of a text. Takes linear time. */
export function matchesGlob(pattern: string, text: string): boolean {
  const [start = "", ...rest] = pattern.split("*");
  const end = rest.pop();
  if (end === undefined) return pattern === text;
  if (!text.startsWith(start) || !text.slice(start.length).endsWith(end)) return false;
  let at = start.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= text.length - end.length;
}
