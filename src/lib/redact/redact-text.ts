/** Hides secrets in free text: log lines, errors, output. */

import { hideCommandLine } from "./forms/commands.ts";
import { hideGiven } from "./given.ts";
import { hidePem } from "./forms/pem.ts";
import { PlainTexts } from "./plain-texts.ts";
import { standIn } from "./stand-in.ts";
import type { Hide } from "./stand-in.ts";
import { hideTokens } from "./forms/tokens.ts";
import { hideUrlUsers } from "./forms/urls.ts";

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
