/** Reads and writes JSON pointers (RFC 6901). */

/** Segments of a pointer, which starts with a slash or is empty. */
export function segmentsOf(pointer: string): string[] {
  if (pointer === "") return [];
  return pointer
    .slice(1)
    .split("/")
    .map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** The JSON pointer with these segments. */
export function pointerOf(segments: readonly (string | number)[]): string {
  return segments
    .map((segment) => `/${String(segment).replaceAll("~", "~0").replaceAll("/", "~1")}`)
    .join("");
}

/** True when `pointer` is `at` or lies below it. */
export function isAtOrBelow(pointer: string, at: string): boolean {
  return pointer === at || pointer.startsWith(`${at}/`);
}
