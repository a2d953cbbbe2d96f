/** Which view is shown: the part of the address behind `#`. */

import { signal } from "@preact/signals";

const read = (): readonly string[] =>
  location.hash
    .replace(/^#\/?/, "")
    .split("/")
    .map((word) => decodeURIComponent(word));

/** The words of the address, as `["module", "web", "values"]`. */
export const route = signal(read());

addEventListener("hashchange", () => {
  route.value = read();
  // What was read aloud and scrolled before is another page's.
  document.querySelector<HTMLElement>("main")?.focus({ preventScroll: true });
});

/** The address of a view. */
export function to(...words: readonly string[]): string {
  return `#/${words.map((word) => encodeURIComponent(word)).join("/")}`;
}

/** Changes the address of a view while one types, which leaves nothing to go back to. */
export function search(...words: readonly string[]): void {
  history.replaceState(null, "", to(...words));
  route.value = words;
}
