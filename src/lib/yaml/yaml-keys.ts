/** Finds the keys of a YAML text: where one stands, and which stand twice. */

import { EVENT_ID, getScalarValue, parseEvents } from "js-yaml";

/** A step of js-yaml's parser. */
export type YamlEvent = ReturnType<typeof parseEvents>[number];

/** A mapping, a sequence or the document, and the member that is being read. */
interface Frame {
  readonly type: YamlEvent["type"];
  expectsKey: boolean;
  member: string | undefined;
  index: number;
}

/** A key of a mapping. */
interface Key {
  readonly text: string;
  /** Where it begins. */
  readonly start: number;
  /** What contains it, its own mapping last; good until the next key. */
  readonly frames: readonly Frame[];
}

/** Line (from 1) of the key at `path` in a YAML text; undefined when it is not written there. */
export function lineOf(text: string, path: readonly string[]): number | undefined {
  let start: number | undefined;
  // When a key stands twice, the last one counts.
  for (const key of keysIn(firstDocument(parseEvents(text, {})), text))
    if (isAt(key.frames, path)) start = key.start;
  return start === undefined ? undefined : text.slice(0, start).split("\n").length;
}

/** A warning for each key that was there before in its mapping, in time that grows with the text alone. */
export function duplicateKeys(events: readonly YamlEvent[], text: string, file: string): string[] {
  const seen = new Map<Frame | undefined, Map<string, number>>();
  const warnings: string[] = [];
  let line = 1;
  let at = 0;
  for (const { text: key, start, frames } of keysIn(events, text)) {
    if (key === "<<") continue;
    for (; at < start; at++) if (text[at] === "\n") line++;
    const lines = seen.get(frames.at(-1)) ?? new Map<string, number>();
    const first = lines.get(key);
    seen.set(frames.at(-1), lines.set(key, line));
    if (first === undefined) continue;
    warnings.push(`${file}: line ${line}: key "${key}" was already set in line ${first}; the last one wins`);
  }
  return warnings;
}

/** The events of the first document of a text. */
export function firstDocument(events: YamlEvent[]): YamlEvent[] {
  const second = events.findIndex((event, index) => index > 0 && event.type === EVENT_ID.DOCUMENT);
  return second < 0 ? events : events.slice(0, second);
}

/** The keys in the order of the text. */
function* keysIn(events: readonly YamlEvent[], text: string): Generator<Key> {
  const frames: Frame[] = [];
  for (const event of events) {
    if (event.type === EVENT_ID.POP) {
      frames.pop();
      continue;
    }
    const isKey = enter(frames.at(-1), event, text);
    if (isKey && event.type === EVENT_ID.SCALAR)
      yield { text: getScalarValue(text, event), start: event.valueStart, frames };
    if (event.type !== EVENT_ID.SCALAR && event.type !== EVENT_ID.ALIAS)
      frames.push({ type: event.type, expectsKey: true, member: undefined, index: -1 });
  }
}

/** Moves on to the member that the event begins; whether the event is the key of one. */
function enter(frame: Frame | undefined, event: YamlEvent, text: string): boolean {
  if (frame?.type === EVENT_ID.SEQUENCE) frame.member = String(++frame.index);
  if (frame?.type !== EVENT_ID.MAPPING) return false;
  frame.expectsKey = !frame.expectsKey;
  if (frame.expectsKey) return false;
  frame.member = event.type === EVENT_ID.SCALAR ? getScalarValue(text, event) : undefined;
  return true;
}

function isAt(frames: readonly Frame[], path: readonly string[]): boolean {
  const members = frames.filter((frame) => frame.type !== EVENT_ID.DOCUMENT);
  return members.length === path.length && members.every(({ member }, index) => member === path[index]);
}
