/** The displayed view: the part of the address behind `#`. */

import { signal } from "@preact/signals";

const readSegments = (): readonly string[] =>
  location.hash
    .replace(/^#\/?/, "")
    .split("/")
    .map((word) => decodeURIComponent(word));

/** The segments of the address, as `["module", "web", "values"]`. */
export const route = signal(readSegments());

/** The module whose view was left last; it gets the focus again after Back. */
export let previousModule: string | undefined;

addEventListener("hashchange", () => {
  const [view, module] = route.value;
  previousModule = view === "module" ? module : undefined;
  route.value = readSegments();
  // A screen reader starts again at the beginning of the new view.
  document.querySelector<HTMLElement>("main")?.focus({ preventScroll: true });
});

/** The address of a view. */
export function buildHref(...words: readonly string[]): string {
  return `#/${words.map((word) => encodeURIComponent(word)).join("/")}`;
}

/** Enter and the down arrow move the focus from a search to its first result. */
export function focusFirstResult(event: KeyboardEvent): void {
  if (event.key !== "Enter" && event.key !== "ArrowDown") return;
  const first = document.querySelector<HTMLElement>(".scroll th a, a.node");
  if (first === null) return;
  event.preventDefault();
  first.focus();
}

/** Replaces the address while the user types, without an entry in the browser's history. */
export function replaceRoute(...words: readonly string[]): void {
  history.replaceState(null, "", buildHref(...words));
  route.value = words;
}
