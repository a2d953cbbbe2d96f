/** Elements of several views: a state, and the search of a view. */

import { getTone } from "./format.ts";

/** A state as a word with a coloured dot. */
export function State({ name, text = name }: { readonly name: string; readonly text?: string }) {
  return <span class={`state ${getTone(name)}`}>{text}</span>;
}

interface SearchProps {
  readonly label: string;
  readonly value: string;
  readonly onText: (text: string) => void;
  readonly onKeyDown?: (event: KeyboardEvent) => void;
}

/** The search of a view. The key `/` moves the focus to it. */
export function Search({ label, value, onText, onKeyDown }: SearchProps) {
  return (
    <input
      type="search"
      id="search"
      aria-label={label}
      placeholder={`${label}  /`}
      value={value}
      onInput={({ currentTarget }) => onText(currentTarget.value)}
      onKeyDown={onKeyDown}
    />
  );
}
