/** What terminals show: colours, and a screen that is drawn anew. */

import type { World } from "../table/row.ts";

/** Cursor home, clear the rest of the screen. */
export const CLEAR = "\u001b[H\u001b[J";

const CODES = { bold: 1, red: 31, green: 32, yellow: 33, grey: 90 } as const;

export type Colour = keyof typeof CODES;

/** A text in a colour: on terminals, unless NO_COLOR is set. */
export function painted(
  { isTerminal, env }: Pick<World, "isTerminal" | "env">,
  colour: Colour,
  text: string,
): string {
  return isTerminal && !env["NO_COLOR"] ? `\u001b[${CODES[colour]}m${text}\u001b[0m` : text;
}
