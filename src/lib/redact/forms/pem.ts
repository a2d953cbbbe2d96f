/** Removes PEM blocks from texts. */

import type { Hide } from "../stand-in.ts";

const PEM =
  /-----BEGIN (?!(?:[A-Z0-9]{1,16} )?PUBLIC KEY)[A-Z0-9 ]{1,64}-----[\s\S]*?(?:-----END [A-Z0-9 ]{1,64}-----|$)/g;
const PEM_END = /-----END (?!(?:[A-Z0-9]{1,16} )?PUBLIC KEY)[A-Z0-9 ]{1,64}-----/g;
/** Lines of a block have 64 characters, the last one any number. */
const PEM_LINE = 16;

/** A text without PEM blocks (public keys are no secret), also such whose begin or end was cut off. */
export function hidePem(text: string, hide: Hide): string {
  return hideEnds(text.replaceAll(PEM, hide), hide);
}

/** Walks back from each end, never past the one before. */
function hideEnds(text: string, hide: Hide): string {
  const parts: string[] = [];
  let done = 0;
  for (const found of text.matchAll(PEM_END)) {
    const from = bodyStart(text, done, found.index);
    const end = found.index + found[0].length;
    if (from === found.index) continue;
    parts.push(text.slice(done, from), hide(text.slice(from, end)));
    done = end;
  }
  return parts.join("") + text.slice(done);
}

/** Where the base64 lines begin that stand before `end`. */
function bodyStart(text: string, least: number, end: number): number {
  let from = end;
  let shortest = 1;
  for (let at = end; at > least; shortest = PEM_LINE) {
    while (at > least && /[\s|]/.test(text[at - 1] ?? "")) at--;
    const lineEnd = at;
    while (at > least && /[A-Za-z0-9+/=]/.test(text[at - 1] ?? "")) at--;
    if (lineEnd - at < shortest) break;
    from = at;
  }
  return from;
}
