/** A state as a word with a coloured dot. */

import { getTone } from "./format.ts";

export function State({ name, text = name }: { readonly name: string; readonly text?: string }) {
  return <span class={`state ${getTone(name)}`}>{text}</span>;
}
