/** A state as a word with a dot of its colour. */

import { toneOf } from "./words.ts";

export function State({ name, text = name }: { readonly name: string; readonly text?: string }) {
  return <span class={`state ${toneOf(name)}`}>{text}</span>;
}
