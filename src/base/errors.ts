/** Errors and untrusted text as lines of text. */

import { redactText } from "./redact/redact-text.ts";
import { toJsonEscape } from "./yaml/yaml-safe-json.ts";

/** Converts anything thrown to an Error. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** Returns the result of `read`, or undefined if it throws: for callers to whom the reason of a failure does not matter. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Whether a promise is fulfilled: for callers to whom neither the result nor the reason of a failure matters. */
export function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}

/** Lists at most `maxNames` names in one text and counts the others: `a, b and 3 more`. */
export function listNames(names: readonly string[], maxNames: number): string {
  const more = names.length > maxNames ? ` and ${names.length - maxNames} more` : "";
  return names.slice(0, maxNames).join(", ") + more;
}

const ESCAPE_CHARACTER = "\u001B";
/** Colours, titles, links and moves of the cursor. */
export const TERMINAL_SEQUENCE = new RegExp(
  `${ESCAPE_CHARACTER}(?:\\[[0-?]*[ -/]*[@-~]|\\][^\u0007${ESCAPE_CHARACTER}]*(?:\u0007|${ESCAPE_CHARACTER}\\\\)|[ -/]*[0-~])`,
  "g",
);
/** Control characters except white space. */
const NON_SPACE_CONTROLS = /(?!\s)\p{Cc}/gu;

/** The message of anything thrown, in one line of at most `limit` characters, without what could drive the terminal of a reader. */
export function oneLine(thrown: unknown, limit = 500): string {
  const text = toLine(thrown, limit);
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}

/** The message of anything thrown, in one line. Without texts that look secret if it exceeds `limit`, because a part of one may not look so. */
function toLine(thrown: unknown, limit: number): string {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const plain = message.replaceAll(TERMINAL_SEQUENCE, "").replaceAll(NON_SPACE_CONTROLS, "");
  const line = joinLines(plain);
  return line.length > limit ? joinLines(redactText(plain)) : line;
}

function joinLines(text: string): string {
  return escapeControlCharacters(text.replaceAll(/\s+/g, " ").trim());
}

/** The beginning of a command for users. */
const COMMAND_START = "kubectl ";
/** How much of the sentence before a command stays with it. */
const INTRO_LENGTH = 80;
/** Longer texts are cut before commands are searched in them. */
const MAX_SEARCHED = 16_384;

/**
 * One line of anything thrown. A long one is shortened to about `limit` characters, but never within a command that users copy: the
 * text before the command is shortened instead. If the result would exceed `maxLength`, it ends before the command.
 */
export function lineWithCommand(thrown: unknown, limit = 500, maxLength = 5000): string {
  const text = oneLine(thrown, MAX_SEARCHED);
  if (text.length <= limit) return text;
  const command = findCommandAt(text, limit);
  if (command === undefined) return oneLine(text, limit);
  const { index, end } = command;
  const introStart = Math.max(0, index - INTRO_LENGTH);
  const beforeLimit = Math.max(INTRO_LENGTH, limit - (end - introStart));
  const isBeforeShort = introStart <= beforeLimit;
  const before = isBeforeShort
    ? text.slice(0, introStart)
    : `${oneLine(text.slice(0, introStart), beforeLimit)} `;
  const after = end === text.length ? "" : "…";
  const line = `${before}${text.slice(introStart, end)}${after}`;
  return line.length <= maxLength ? line : oneLine(text.slice(0, index), limit);
}

/** Finds the first kubectl command that ends at or after a position. Takes linear time. */
function findCommandAt(text: string, position: number): { index: number; end: number } | undefined {
  let index = text.indexOf(COMMAND_START);
  while (index >= 0) {
    const end = findCommandEnd(text, index);
    if (end >= position) return { index, end };
    index = text.indexOf(COMMAND_START, end);
  }
  return undefined;
}

/** The end of the sentence of a command. Quoted parts may contain anything. */
function findCommandEnd(text: string, start: number): number {
  let quote: string | undefined;
  for (let at = start; at < text.length; at++) {
    const char = text[at];
    if (quote !== undefined) quote = char === quote ? undefined : quote;
    else if (char === "'" || char === '"') quote = char;
    else if (char === ")" || (char === ";" && text[at + 1] === " ")) return at;
  }
  return text.length;
}

/** Makes one line of untrusted text, as `oneLine` does, without control characters that could drive the terminal of a reader. */
export function plainLine(text: string, limit = 500): string {
  return oneLine(oneLine(text, 4 * limit).replaceAll(/[\p{Cc}\p{Cf}]+/gu, " "), limit);
}

/**
 * Characters that are not displayed but have an effect: control characters, line and paragraph separators, and format characters, such as
 * those that change the text direction. Not the joiners of letters and emoji, which many languages need.
 */
const CONTROL_CHARACTERS = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Whether a text has characters that a terminal obeys, that end a line, or that change the text direction. */
export function hasControlCharacter(text: string): boolean {
  return text.search(CONTROL_CHARACTERS) !== -1;
}

/** Makes untrusted text safe to print on a terminal: writes control characters as `\u001b`, except line ends and tabs. */
export function escapeControlCharacters(text: string): string {
  return text.replaceAll(CONTROL_CHARACTERS, (character) =>
    character === "\n" || character === "\t" ? character : escapeUnits(character),
  );
}

/** As `escapeControlCharacters` for a single line, or for a JSON text without white space: also escapes line ends and tabs. */
export function escapeLine(text: string): string {
  return text.replaceAll(CONTROL_CHARACTERS, escapeUnits);
}

function escapeUnits(character: string): string {
  return character.split("").map(toJsonEscape).join("");
}

/** One line of anything thrown, a long one without its middle: API servers print a refused value before the reason, so the end must stay. */
export function shortenMiddle(thrown: unknown, limit = 500): string {
  const text = toLine(thrown, limit);
  const half = Math.floor((limit - 3) / 2);
  return text.length > limit ? `${text.slice(0, half)} … ${text.slice(-half)}` : text;
}
