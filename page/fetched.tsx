/** Fetches the data of a view from the operator, again whenever one of `versions` changes. */

import { useEffect, useRef, useState } from "preact/hooks";

import { fetchText } from "./live.ts";

export interface Fetched {
  readonly text?: string;
  readonly error?: string;
}

/** The shortest time between two requests for the same data. */
const MIN_INTERVAL_MS = 500;

/**
 * Fetches a path again whenever one of `versions` changes, and returns the last response: it stays until the next one
 * arrives, so that the view does not flicker. Ignores a response that arrives after a later request's.
 */
export function useFetched(
  path: string,
  query: Readonly<Record<string, string>>,
  ...versions: readonly unknown[]
): Fetched {
  const key = `${path} ${JSON.stringify(query)}`;
  const [fetched, setFetched] = useState<Fetched & { readonly key?: string; readonly atMs: number }>({
    atMs: 0,
  });
  const last = useRef({ key: "", atMs: 0 });
  useEffect(() => {
    const timer = setTimeout(
      () => {
        const request = (last.current = { key, atMs: performance.now() });
        const show = (response: Fetched): void =>
          setFetched((displayed) =>
            displayed.atMs > request.atMs ? displayed : { ...request, ...response },
          );
        fetchText(path, query).then(
          (text) => show({ text }),
          (error: Error) => show({ error: error.message }),
        );
      },
      last.current.key === key ? last.current.atMs + MIN_INTERVAL_MS - performance.now() : 0,
    );
    return () => clearTimeout(timer);
  }, [key, ...versions]);
  return fetched.key === key ? fetched : {};
}

/** What a view displays while it has no data: that it loads, or the error. */
export function Pending({ error }: Fetched) {
  return error === undefined ? <p class="hint">Loading …</p> : <p class="error-text">{error}</p>;
}
