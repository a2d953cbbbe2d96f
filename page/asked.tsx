/** What a view asks the operator for, again whenever `version` changes. */

import { useEffect, useState } from "preact/hooks";

import { ask } from "./live.ts";

export interface Asked {
  readonly text?: string;
  readonly trouble?: string;
}

/** The answer; the last one stays while the next is on its way. */
export function useAsked(what: string, query: Readonly<Record<string, string>>, version: unknown): Asked {
  const [asked, setAsked] = useState<Asked & { readonly of?: string }>({});
  const of = `${what} ${JSON.stringify(query)}`;
  useEffect(() => {
    let isOver = false;
    ask(what, query).then(
      (text) => !isOver && setAsked({ of, text }),
      (error: Error) => !isOver && setAsked({ of, trouble: error.message }),
    );
    return () => void (isOver = true);
  }, [of, version]);
  return asked.of === of ? asked : {};
}

/** In place of an answer. */
export function NotYet({ trouble }: Asked) {
  return trouble === undefined ? <p class="hint">Asking …</p> : <p class="trouble">{trouble}</p>;
}
