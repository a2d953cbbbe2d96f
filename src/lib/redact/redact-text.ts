/** Hides secrets in free text: log lines, errors, output. */

import { hideCommandLine } from "./forms/commands.ts";
import { hideGiven } from "./given.ts";
import { hidePem } from "./forms/pem.ts";
import { standIn, type Hide } from "./stand-in.ts";
import { hideTokens } from "./forms/tokens.ts";
import { hideUrlUsers } from "./forms/urls.ts";

const LONGEST = 256;

/** Texts in which no secret was found: most come again, and need not be looked through again. */
export class PlainTexts {
  readonly #most: number;
  readonly #texts = new Set<string>();

  constructor(most: number) {
    this.#most = most;
  }

  has(text: string): boolean {
    return text.length <= LONGEST && this.#texts.has(text);
  }

  /** Long ones are not kept, and of too many none. */
  add(text: string): void {
    if (text.length > LONGEST) return;
    if (this.#texts.size >= this.#most) this.#texts.clear();
    // A copy: a part cut out of a text would keep the whole of it in memory.
    this.#texts.add(Buffer.from(text).toString());
  }
}

const MOST_PLAIN = 2000;
const plainProse = new PlainTexts(MOST_PLAIN);
const plainValues = new PlainTexts(MOST_PLAIN);

/**
 * A free text (log line, stderr, error) without PEM blocks, user info in URLs, tokens of well-known forms, and what is
 * given to a secret-looking key (`password=…`, `"token": "…"`, `--api-key …`, `Authorization: Bearer …`).
 */
export function redactText(text: string): string {
  return hideInText(text, standIn);
}

/** The same with another stand-in; with `isProse` false, a colon gives a value: `password: correcthorse`. */
export function hideInText(text: string, hide: Hide, isProse = true): string {
  const known = isProse ? plainProse : plainValues;
  if (text.length < 4 || known.has(text)) return text;
  const plain = hideTokens(hideUrlUsers(hidePem(text, hide), hide), hide);
  const shown = hideGiven(hideCommandLine(plain, hide), hide, isProse);
  if (shown === text) known.add(text);
  return shown;
}
