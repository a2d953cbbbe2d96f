/** What a view asks the operator for, again whenever one of `versions` changes. */

import { useEffect, useRef, useState } from "preact/hooks";

import { ask } from "./live.ts";

export interface Asked {
  readonly text?: string;
  readonly trouble?: string;
}

/** Between two questions of the same; the first is asked at once. */
const APART_MS = 500;

/** The answer; the last one stays while the next is on its way. */
export function useAsked(
  what: string,
  query: Readonly<Record<string, string>>,
  ...versions: readonly unknown[]
): Asked {
  const of = `${what} ${JSON.stringify(query)}`;
  const [asked, setAsked] = useState<Asked & { readonly of?: string; readonly atMs: number }>({ atMs: 0 });
  const last = useRef({ of: "", atMs: 0 });
  useEffect(() => {
    const timer = setTimeout(
      () => {
        const question = (last.current = { of, atMs: performance.now() });
        const show = (answer: Asked): void =>
          setAsked((shown) => (shown.atMs > question.atMs ? shown : { ...question, ...answer }));
        ask(what, query).then(
          (text) => show({ text }),
          (error: Error) => show({ trouble: error.message }),
        );
      },
      last.current.of === of ? last.current.atMs + APART_MS - performance.now() : 0,
    );
    return () => clearTimeout(timer);
  }, [of, ...versions]);
  return asked.of === of ? asked : {};
}

/** In place of an answer. */
export function NotYet({ trouble }: Asked) {
  return trouble === undefined ? <p class="hint">Asking …</p> : <p class="trouble">{trouble}</p>;
}
